"""Grounding: retrieves knowledge from document collections as signed evidence (18.1.3.5)."""

from __future__ import annotations

from gnus_node.cognition.documents import BuildReport, CorpusConfig, CorpusIndex, CorpusKind, PassageStore
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
        folder.mkdir(mode=0o700, exist_ok=True)
        corpora: list[CorpusIndex] = []
        self._stores: list[PassageStore] = []
        shown = []
        for number, spec in enumerate(host.corpora, 1):
            config = CorpusConfig(
                spec.name, CorpusKind(spec.kind), spec.source_class, spec.trusted, spec.path, None, spec.uri_prefix, spec.tenant
            )
            store = PassageStore(folder / f"{spec.name}.passages")
            self._stores.append(store)
            corpus = CorpusIndex(config, host.make_index(folder / f"{spec.name}.terms"), store)
            report = await _built(host, corpus, number)
            node.log.info("corpus.ready", corpus=spec.name, passages=report.passages, rebuilt=report.rebuilt)
            shown.append({"name": spec.name, "passages": report.passages, "digest": f"sha256:{report.digest.hex()}"})
            corpora.append(corpus)
        host.front.corpora = shown
        host.serve("grounding.retrieve", GroundingService(host.context, corpora).retrieve)

    async def work(self) -> None:
        """Nothing in the background."""

    async def aclose(self) -> None:
        """Close the passage stores."""
        for store in self._stores:
            store.close()


async def _built(host: RoleHost, corpus: CorpusIndex, number: int) -> BuildReport:
    """Bring one collection up to its source, a batch at a time: the log says how far it is, and a node that is told to stop stops."""
    node = host.context.node
    steps = corpus.build_steps()
    said: float | None = None
    while True:
        step = await node.offload.run(next, steps, lane=INDEX_LANE)
        if isinstance(step, BuildReport):
            return step
        now = node.clock.monotonic()
        if said is None or now - said >= SAID_EVERY_S:
            said = now
            node.log.info("corpus.indexing", corpus=corpus.config.name, passages=step, number=number, of=len(host.corpora))
