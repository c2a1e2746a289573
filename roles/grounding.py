"""Grounding: retrieves knowledge from document collections as signed evidence (18.1.3.5)."""

from __future__ import annotations

from gnus_node.cognition.documents import CorpusConfig, CorpusKind, OpenCorpus, open_corpus, private_folder
from gnus_node.cognition.grounding import GroundingService
from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost

INDEX_LANE = "index"


class Grounding:
    """Serves ``grounding.retrieve`` over the configured collections, each in an index of its own below the data directory."""

    name = RoleName.GROUNDING

    async def open(self, host: RoleHost) -> None:
        """Open every index, bring it up to its source, serve."""
        node = host.context.node
        folder = host.data_dir / "corpora"
        self._corpora: list[OpenCorpus] = []
        private_folder(folder)
        shown = []
        for spec in host.corpora:
            config = CorpusConfig(
                spec.name, CorpusKind(spec.kind), spec.source_class, spec.trusted, spec.path, None, spec.uri_prefix, spec.tenant
            )
            corpus = await node.offload.run(open_corpus, config, folder, host.make_index, lane=INDEX_LANE)
            self._corpora.append(corpus)
            report = corpus.report
            if corpus.damaged:
                node.log.warning("corpus.damaged", corpus=spec.name, rebuilt=True)
            node.log.info("corpus.ready", corpus=spec.name, passages=report.passages, rebuilt=report.rebuilt)
            shown.append({"name": spec.name, "passages": report.passages, "digest": f"sha256:{report.digest.hex()}"})
        host.front.corpora = shown
        host.serve("grounding.retrieve", GroundingService(host.context, [corpus.index for corpus in self._corpora]).retrieve)

    async def work(self) -> None:
        """Nothing in the background."""

    async def aclose(self) -> None:
        """Close the corpora."""
        for corpus in self._corpora:
            corpus.close()
