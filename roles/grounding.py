"""Grounding: retrieves knowledge from document collections as signed evidence (18.1.3.5)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gnus_node.cognition.documents import CorpusConfig, CorpusKind, OpenCorpus, opening_steps, private_folder
from gnus_node.cognition.grounding import GroundingService
from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost

INDEX_LANE = "index"
SAID_EVERY_S = 1.0
"""How often a collection that is being indexed is heard of."""


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
        for number, spec in enumerate(host.corpora, 1):
            config = CorpusConfig(
                spec.name, CorpusKind(spec.kind), spec.source_class, spec.trusted, spec.path, None, spec.uri_prefix, spec.tenant
            )
            corpus = await _opened(host, config, folder, number)
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


async def _opened(host: RoleHost, config: CorpusConfig, folder: Path, number: int) -> OpenCorpus:
    """Bring one collection up to its source, a batch at a time: the log says how far it is, and a node that is told to stop stops."""
    node = host.context.node
    said: float | None = None
    with contextlib.closing(opening_steps(config, folder, host.make_index)) as steps:
        while True:
            step = await node.offload.run(next, steps, lane=INDEX_LANE)
            if isinstance(step, OpenCorpus):
                return step
            now = node.clock.monotonic()
            if said is None or now - said >= SAID_EVERY_S:
                said = now
                node.log.info("corpus.indexing", corpus=config.name, passages=step, number=number, of=len(host.corpora))
