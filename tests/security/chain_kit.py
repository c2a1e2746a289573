"""A chain built by hand: fixed keys, fixed time, every record of one request from charter to task record, signed as real nodes sign.

``Chain`` builds the records in order, each from the ids of those before; ``change`` replaces fields of one body by name, ``header`` fields of
one header, ``keys`` its signer, ``drop`` leaves it out of the bag. Everything after a changed record is made and signed anew, so the chain is
consistent and wrong in exactly one place: what an attacker who holds the keys would send.

``Cast`` is who plays: a made-up swarm of three nodes and two tenants here, the keys of a real running node in the live tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import nacl.bindings

from gnus_node.evidence.bag import Bag
from gnus_node.evidence.bundle import write_bundle
from gnus_node.evidence.chain import verify_chain
from gnus_node.evidence.cover import ends
from gnus_node.evidence.inputs import committed_of, digest_of
from gnus_node.evidence.links_tools import policy_hash
from gnus_node.evidence.verdict import Verdict
from gnus_node.host.entropy import SeededEntropy
from gnus_node.privacy.parcels import Vault
from gnus_node.records import authority as au
from gnus_node.records import evidence as ev
from gnus_node.records import expert as ex
from gnus_node.records import flow, plan, settlement, tools
from gnus_node.records.base import Body, Committed
from gnus_node.records.enums import (
    AnswerType,
    ApprovalMode,
    AttestationPhase,
    BackendKind,
    CapabilityScope,
    ColocationProfile,
    Domain,
    DryRunKind,
    EffectClass,
    EffectState,
    ExecutionMode,
    ExpertRole,
    IndependenceUnit,
    Intent,
    KeyMode,
    MemoryClass,
    MemoryMode,
    Outcome,
    PolicyLevel,
    PrivacyMode,
    PrivacyScope,
    ProcessingPass,
    Risk,
    RoleName,
    SandboxPlatform,
    SignerRole,
    SourceClass,
    SourceType,
    Stage,
    Tier,
    Topology,
    TrustClass,
    UsageSource,
    Whose,
)
from gnus_node.records.envelope import Header, Signed
from gnus_node.trust.state import TrustState, fold, log_digest
from gnus_node.wire import jsontext
from gnus_node.wire.digests import sha256, swarm_id
from gnus_node.wire.signed import encode_part, seal

NOW_MS = 1_780_000_000_000
DAY_MS = 24 * 3600 * 1000
REQUEST = "11111111-2222-4333-8444-555555555555"
CALL = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
CALL_2 = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeee2"
CAPABILITY = "tool.files.read.readonly"
ACME, GLOBEX = "acme", "globex"
ALPHA, BETA, GAMMA = "node-alpha", "node-beta", "node-gamma"
TENANTS_OF = {ALPHA: (ACME, GLOBEX), BETA: (ACME, GLOBEX), GAMMA: (GLOBEX,)}
PASSAGE = "The release codename is Blue Heron."


@dataclass(frozen=True, slots=True)
class Key:
    """One signing key and the role it signs as."""

    role: SignerRole
    seed: bytes

    @property
    def public(self) -> bytes:
        return _pair(self.seed)[0]

    def sign(self, message: bytes) -> bytes:
        return nacl.bindings.crypto_sign(message, _pair(self.seed)[1])[:64]


@lru_cache(maxsize=256)
def _pair(seed: bytes) -> tuple[bytes, bytes]:
    return nacl.bindings.crypto_sign_seed_keypair(seed)


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays, and under which trust log. ``keys`` by (node or tenant, role)."""

    swarm: bytes
    trust: TrustState
    keys: Mapping[tuple[str, SignerRole], Key]
    charter: bytes
    log: tuple[bytes, ...]
    tenant: str = ACME
    home: str = ALPHA
    router: str = ALPHA
    now_ms: int = NOW_MS

    def key(self, owner: str, role: SignerRole | RoleName) -> Key:
        return self.keys[owner, SignerRole(str(role))]


def sign(body: Body, key: Key, home: bytes, *, seq: int, at_ms: int, refs: Sequence[bytes] = (), **header: Any) -> Signed[Any]:
    """An envelope by a key, header fields overridable."""
    values: dict[str, Any] = {
        "kind": body.KIND,
        "version": body.VERSION,
        "swarm": home,
        "epoch": 1,
        "signer": key.public,
        "role": key.role,
        "seq": seq,
        "issued_at_ms": at_ms,
        "refs": tuple(refs),
    }
    return seal(Header.model_validate(values | header), body, key.sign)


def altered(body: Body, changes: Mapping[str, Any]) -> Body:
    """A body with fields replaced, validated anew; a callable gets the old value."""
    values = {name: getattr(body, name) for name in type(body).model_fields}
    for name, value in changes.items():
        values[name] = value(values[name]) if callable(value) else value
    return type(body).model_validate({k: v for k, v in values.items() if v is not None})


def with_parts(part: Any, **changes: Any) -> Any:
    """A part with fields replaced, validated anew."""
    values = {name: getattr(part, name) for name in type(part).model_fields} | changes
    return type(part).model_validate({k: v for k, v in values.items() if v is not None})


def make_swarm(seed: int = 1, *, revoke: Iterable[tuple[str, SignerRole]] = (), epoch: int = 1) -> Cast:
    """A 1-of-1 swarm of three nodes and two tenants; gamma serves one tenant only. Equal seeds give equal swarms."""
    entropy = SeededEntropy(seed)

    def key(owner: str, role: SignerRole) -> Key:
        return Key(role, entropy.fork(f"{owner}/{role}").token(32))

    authority = key("swarm", SignerRole.AUTHORITY)
    keys: dict[tuple[str, SignerRole], Key] = {("swarm", SignerRole.AUTHORITY): authority}
    charter = au.SwarmCharter(
        name=f"swarm-{seed}",
        authority_keys=(authority.public,),
        threshold=1,
        head_keys=(),
        profile=ColocationProfile.DEV,
        independence_unit=IndependenceUnit.NODE,
        created_at_ms=NOW_MS - DAY_MS,
        head_max_age_ms=600_000,
    )
    swarm = swarm_id(encode_part(charter))
    span = {"not_before_ms": NOW_MS - DAY_MS, "not_after_ms": NOW_MS + DAY_MS, "grant_epoch": 1}
    bodies: list[Body] = []
    for node, tenants in TENANTS_OF.items():
        for role in (SignerRole.TRANSPORT, *(SignerRole(r.value) for r in RoleName)):
            keys[node, role] = key(node, role)
        roles = tuple(au.RoleKey(role=r, key=keys[node, SignerRole(r.value)].public) for r in RoleName)
        common = {"node_id": node, "operator": node, "tier": Tier.A, "tenants": tenants, "roles": roles}
        sealing = nacl.bindings.crypto_scalarmult_base(entropy.fork(node).token(32))
        bodies.append(
            au.RoleGrant.model_validate(common | span | {"transport_key": keys[node, SignerRole.TRANSPORT].public, "sealing_key": sealing})
        )
    for tenant in (ACME, GLOBEX):
        for role in (SignerRole.POLICY, SignerRole.APPROVER, SignerRole.CLIENT):
            keys[tenant, role] = key(tenant, role)
        listed = {f"{r}_keys": (keys[tenant, r].public,) for r in (SignerRole.POLICY, SignerRole.APPROVER, SignerRole.CLIENT)}
        bodies.append(au.TenantGrant.model_validate({"tenant": tenant} | listed | span))
    for owner, role in revoke:
        bodies.append(au.Revocation(key=keys[owner, role].public, cut_epoch=epoch, revoked_at_ms=NOW_MS, reason="lost"))
    first = sign(charter, authority, swarm, seq=0, at_ms=NOW_MS - DAY_MS)
    log = [sign(body, authority, swarm, seq=n, at_ms=NOW_MS - DAY_MS) for n, body in enumerate(bodies, start=1)]
    ids = [first.id, *(r.id for r in log)]
    head = au.TrustHead(head_epoch=epoch, log_digest=log_digest(ids), log_size=len(ids))
    log.append(sign(head, authority, swarm, seq=100 + epoch, at_ms=NOW_MS - 1000, epoch=epoch))
    return Cast(swarm, fold(first, log), keys, first.raw, tuple(r.raw for r in log))


CEILINGS = au.Ceilings(
    capabilities=(CAPABILITY,),
    domains=("docs.example",),
    paths=("/srv/docs",),
    pre_granted=(),
    max_tokens=4000,
    max_wall_ms=60_000,
    max_spend=1000,
    max_turns=2,
    privacy_floor=PrivacyMode.RESTRICTED,
    approval_floor=ApprovalMode.DEFAULT,
    memory_floor=MemoryMode.POLICY_SCOPED,
)

Change = Mapping[str, Any]


@dataclass
class Chain:
    """One request's records by name, in the order they were made. See the module's docstring for the levers."""

    cast: Cast
    change: Mapping[str, Change] = field(default_factory=dict)
    header: Mapping[str, Change] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    given: Mapping[str, Signed[Any]] = field(default_factory=dict)
    request: str = REQUEST
    generation: int = 1
    ceilings: au.Ceilings = CEILINGS
    question: str = "What is the release codename in notes.txt?"
    vault: Vault | None = None
    records: dict[str, Signed[Any]] = field(default_factory=dict)
    approve: bool = False
    """A person's decision between the first and the second attestation."""
    client: bool = False
    """The client signed its own request."""
    lose: str = ""
    """A record (or ``extra``) that is gone although the response covers it."""
    covers_no_extra: bool = False
    """The response was made before the extra records."""
    fails: bool = False
    """The request ends in a typed error instead of an answer."""
    calls: int = 1
    """How many calls the helper proposes; the records of the second have a 2 at their names' ends."""
    stop_after: str = ""
    """Build no further than this record."""
    extra: Callable[[Chain], Iterable[Signed[Any]]] | None = None
    """More records for the bag, made when the chain stands."""

    def __post_init__(self) -> None:
        if self.vault is None:
            self.vault = Vault(self.request, sha256(self.request.encode()), SeededEntropy(sha256(self.request.encode() + b"salts")))
        self._tick = 0
        try:
            self._build()
        except _Stop:
            pass

    # -- using it -------------------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Signed[Any]:
        return self.records[name]

    def bag(self, *, without: Iterable[str] = ()) -> Bag:
        left_out = {*self.drop, *without, self.lose}
        more = self.extra(self) if self.extra and self.lose != "extra" else ()
        return Bag([*(r for name, r in self.records.items() if name not in left_out), *more])

    def verdict(self, *, trust: TrustState | None = None, settled: bool | None = None, live: bool = False) -> Verdict:
        return verify_chain(self.bag(), trust or self.cast.trust, self.cast.now_ms + 5_000, settled=settled, live=live)

    def bundle(self, *, texts: bool = False) -> bytes:
        found = {}
        if texts:
            assert self.vault is not None
            for committed in (c for r in self.bag() for c in committed_of(r)):
                if self.vault.holds(committed):
                    found[committed.commitment] = self.vault.salted(committed)
        return write_bundle(self.cast.charter, self.cast.log, self.bag().raws(), found)

    # -- building it ----------------------------------------------------------------------------------------------------------

    def text(self, text: str) -> Committed:
        assert self.vault is not None
        return self.vault.commit(text)

    def add(self, name: str, body: Body, key: Key, refs: Sequence[bytes] = ()) -> Signed[Any]:
        """Sign a record under its name, with its changes."""
        self._tick += 1
        if name in self.given:
            made = self.given[name]
        else:
            header = dict(self.header.get(name, {}))
            signer = self.keys.get(name, key)
            chosen = header.pop("refs", refs)
            chosen = chosen(tuple(refs)) if callable(chosen) else chosen
            at_ms = self.cast.now_ms + self._tick
            made = sign(
                altered(body, self.change.get(name, {})), signer, self.cast.swarm, seq=self._tick, at_ms=at_ms, refs=chosen, **header
            )
        self.records[name] = made
        if name == self.stop_after:
            raise _Stop
        return made

    def key(self, role: SignerRole | RoleName) -> Key:
        owner = self.cast.router if str(role) == "router" else self.cast.home
        return self.cast.key(owner, role)

    def dispatch(
        self,
        name: str,
        stage: Stage,
        how: ProcessingPass,
        role: RoleName,
        refs: Sequence[Signed[Any]],
        *,
        turn: int = 0,
        expert: str | None = None,
        with_plan: bool = True,
    ) -> Signed[Any]:
        """A router's order; its input digest fits its references."""
        body = au.Dispatch(
            request_id=self.request,
            generation=self.generation,
            mandate=self["mandate"].id,
            plan=self["plan"].id if with_plan else None,
            stage=stage,
            processing_pass=how,
            turn=turn,
            attempt=0,
            expert_id=expert,
            peer=self.key(role).public,
            node_id=self.cast.home,
            input_digest=digest_of(refs),
            remaining=au.Remaining(tokens=100, wall_ms=1000, spend=0),
        )
        return self.add(f"dispatch.{name}", body, self.key(RoleName.ROUTER), [r.id for r in refs])

    def attest(self, name: str, role: RoleName, output: Signed[Any], how: ProcessingPass, **more: Any) -> None:
        """The TaskAttestation of an executed dispatch."""
        dispatch = self[f"dispatch.{name}"]
        body = settlement.TaskAttestation(
            request_id=self.request,
            generation=self.generation,
            dispatch=dispatch.id,
            output=output.id,
            processing_pass=how,
            node_id=self.cast.home,
            backend_kind=more.get("backend", BackendKind.SERVICE),
            wall_ms=3,
            usage=more.get("usage"),
        )
        self.add(f"task_attestation.{name}", body, self.key(role), [dispatch.id, output.id])

    def _build(self) -> None:
        self._authority()
        self._memory()
        self._experts()
        self._plan()
        self._ground()
        self._helper()
        self._tools()
        self._core()
        self._end()

    def _authority(self) -> None:
        tenant = self.cast.tenant
        policy = au.Policy(
            policy_id="base", tenant=tenant, level=PolicyLevel.WORKSPACE, subject="any", policy_version=1, ceilings=self.ceilings
        )
        made = self.add("policy", policy, self.cast.key(tenant, SignerRole.POLICY))
        mandate = au.RequestMandate(
            request_id=self.request,
            generation=self.generation,
            tenant=tenant,
            project="default",
            principal="anna",
            key_mode=KeyMode.LIVE,
            query=self.text(self.question),
            policies=(made.id,),
            ceilings=self.ceilings,
            ingress_node=self.cast.home,
            router=self.key(RoleName.ROUTER).public,
            router_node=self.cast.router,
            not_after_ms=self.cast.now_ms + 30_000,
            settlement=self.key(RoleName.SETTLEMENT).public,
            intermediary_id=self.cast.home,
        )
        if self.client:
            asked = flow.AgentRequest(
                tenant=tenant, principal="anna", query=mandate.query, answer_type=AnswerType.TEXT, narrowing=self.ceilings, nonce=CALL
            )
            request = self.add("request", asked, self.cast.key(tenant, SignerRole.CLIENT))
            signed = {"client_key": self.cast.key(tenant, SignerRole.CLIENT).public, "client_signature": request.id}
            mandate = au.RequestMandate.model_validate({**dict(mandate), **signed} | {"context": None, "idempotency": None})
        self.add("mandate", mandate, self.key(RoleName.INGRESS), [made.id])

    def _memory(self) -> None:
        mandate = self["mandate"]
        self.dispatch("memory", Stage.MEMORY, ProcessingPass.RETRIEVAL, RoleName.MEMORY_INDEX, [mandate], with_plan=False)
        item = ev.RetrievedItem(
            item="m0",
            event=sha256(b"event"),
            content=self.text("Blue Heron was planned in spring."),
            memory_class=MemoryClass.FACT,
            trust_class=TrustClass.LOWER_TRUST,
            source_type=SourceType.USER,
            provenance_score=5000,
            privacy_scope=PrivacyScope.USER_PRIVATE,
            instruction_scrubbed=True,
        )
        body = ev.RetrievalResult(
            request_id=self.request,
            generation=self.generation,
            dispatch=self["dispatch.memory"].id,
            memory_mode=MemoryMode.POLICY_SCOPED,
            items=(item,),
        )
        made = self.add("retrieval", body, self.key(RoleName.MEMORY_INDEX), [self["dispatch.memory"].id])
        self.attest("memory", RoleName.MEMORY_INDEX, made, ProcessingPass.RETRIEVAL)

    def _experts(self) -> None:
        for name, role, part, kind in (
            ("core", RoleName.SEMANTIC_CORE, ExpertRole.SEMANTIC_CORE, BackendKind.EXTRACTIVE),
            ("helper", RoleName.ELM_WORKER, ExpertRole.TOOL_SUPPORT, BackendKind.SYMBOLIC),
            ("spare", RoleName.ELM_WORKER, ExpertRole.DOMAIN_EXPERT, BackendKind.SYMBOLIC),
        ):
            declared = (ex.RequiredCapability(name=CAPABILITY, scope=CapabilityScope.PROPOSAL_ONLY, constraints=()),)
            off = ex.Availability.DISABLED
            manifest = ex.CapabilityManifest(
                module_name=name,
                module_version="1.0",
                artifact_hash=sha256(name.encode()),
                required_capabilities=declared if name == "helper" else (),
                sandbox_requirements=ex.SandboxRequirements(network=off, filesystem=off, clock=off, randomness=off),
            )
            made = self.add(f"manifest.{name}", manifest, self.key(role))
            entry = ex.ExpertEntry(
                expert_id=name,
                expert_version="1.0",
                expert_role=part,
                domains=(Domain.GENERAL,),
                backend_kind=kind,
                model_id=f"{name}-model",
                model_license="MIT",
                calibration_id="exact/1" if kind is BackendKind.SYMBOLIC else None,
                manifest=made.id,
                node_id=self.cast.home,
                key=self.key(role).public,
                slots=1,
                max_context_tokens=4096,
            )
            self.add(f"entry.{name}", entry, self.key(role), [made.id])

    def places(self) -> tuple[plan.Assignment, ...]:
        """Who executes what."""

        def place(stage: Stage, role: RoleName, expert: str | None = None, fallback: bool = False) -> plan.Assignment:
            return plan.Assignment(
                stage=stage,
                role=role,
                node_id=self.cast.home,
                key=self.key(role).public,
                expert_id=expert,
                entry=self[f"entry.{expert}"].id if expert else None,
                fallback=fallback,
            )

        return (
            place(Stage.MEMORY, RoleName.MEMORY_INDEX),
            place(Stage.GROUND, RoleName.GROUNDING),
            place(Stage.TOOL, RoleName.TOOL_INTERMEDIARY),
            place(Stage.SYNTHESIZE, RoleName.VERIFIER),
            place(Stage.DRAFT, RoleName.SEMANTIC_CORE, "core"),
            place(Stage.DRAFT, RoleName.ELM_WORKER, "helper"),
            place(Stage.DRAFT, RoleName.ELM_WORKER, "spare", fallback=True),
        )

    def _plan(self) -> None:
        mandate, top = self["mandate"], self.ceilings
        entries = {n: self[f"entry.{n}"].body for n in ("core", "helper", "spare")}
        body = plan.ExecutionPlan(
            request_id=self.request,
            query_hash=mandate.body.query.commitment,
            selected_core=plan.SelectedCore(core_id="core", version=entries["core"].expert_version),
            selected_elms=tuple(
                plan.SelectedElm(elm_id=n, version=entries[n].expert_version, role=entries[n].expert_role, capabilities=c)
                for n, c in (("helper", (CAPABILITY,)), ("spare", ()))
            ),
            execution_graph=plan.ExecutionGraph(
                mode=ExecutionMode.AGENT,
                topology=Topology.SEQUENTIAL,
                stages=tuple(sorted({Stage.MEMORY, Stage.GROUND, Stage.DRAFT, Stage.TOOL, Stage.SYNTHESIZE})),
            ),
            constraints=plan.Constraints(max_tokens=top.max_tokens, max_wall_ms=top.max_wall_ms, max_spend=top.max_spend),
            privacy_mode=top.privacy_floor,
            attestation_requirements=plan.AttestationRequirements(
                require_task_attestation=True, require_tool_attestation=True, min_reputation=0
            ),
            tool_policy=plan.ToolPolicy(
                require_dry_run=True,
                human_approval=False,
                capability_whitelist=(CAPABILITY,),
                allowlisted_domains=(),
                allowlisted_paths=top.paths,
            ),
            memory_mode=MemoryMode.POLICY_SCOPED,
            sandbox_profile=plan.SandboxProfile(default_deny=True, platform=SandboxPlatform.IN_PROCESS),
            mandate=mandate.id,
            generation=self.generation,
            intent=Intent.FILE,
            risk=Risk.LOW,
            reasons=("by hand",),
            assignments=self.places(),
            intermediary_id=self.cast.home,
            max_turns=2,
            hints=(self["retrieval"].id,),
        )
        self.add("plan", body, self.key(RoleName.ROUTER), [mandate.id, self["retrieval"].id])

    def kept(self, names: Iterable[str]) -> list[Signed[Any]]:
        """The records of these names that are not dropped."""
        return [self[n] for n in names if n not in self.drop]

    def base(self) -> list[Signed[Any]]:
        return [self["mandate"], self["plan"]]

    def _ground(self) -> None:
        self.dispatch("ground", Stage.GROUND, ProcessingPass.RETRIEVAL, RoleName.GROUNDING, self.base())
        passage = jsontext.canonical({"text": PASSAGE, "title": "notes", "uri": "doc://notes"})
        item = ev.EvidenceItem(
            item="p0",
            passage=self.text(passage),
            source_hash=sha256(PASSAGE.encode()),
            source_class=SourceClass.PUBLIC,
            corpus="notes",
            fresh_at_ms=0,
            trusted=True,
            scrubbed=False,
            score=9000,
        )
        body = ev.GroundingEvidence(
            request_id=self.request,
            generation=self.generation,
            dispatch=self["dispatch.ground"].id,
            turn=0,
            items=(item,),
            corpora=(sha256(b"corpus"),),
        )
        made = self.add("evidence", body, self.key(RoleName.GROUNDING), [self["dispatch.ground"].id])
        self.attest("ground", RoleName.GROUNDING, made, ProcessingPass.RETRIEVAL)

    def _output(self, name: str, role: RoleName, turn: int, **fields: Any) -> None:
        entry = self[f"entry.{name}"].body
        usage = ex.Usage(prompt_tokens=5, completion_tokens=5, cached_tokens=0, wall_ms=2, queue_ms=0, source=UsageSource.COUNTED)
        values: dict[str, Any] = {
            "request_id": self.request,
            "expert_id": name,
            "expert_version": entry.expert_version,
            "expert_role": entry.expert_role,
            "answer": self.text(""),
            "confidence": 0,
            "evidence": (),
            "tool_calls": (),
            "answer_type": AnswerType.TEXT,
            "dispatch": self[f"dispatch.{name}"].id,
            "generation": self.generation,
            "turn": turn,
            "backend_kind": entry.backend_kind,
            "model_id": entry.model_id,
            "model_license": entry.model_license,
            "usage": usage,
        }
        made = self.add(
            f"output.{name}",
            ex.ExpertOutput.model_validate(values | fields),
            self.key(role),
            [self[f"dispatch.{name}"].id, self["plan"].id],
        )
        self.attest(name, role, made, self[f"dispatch.{name}"].body.processing_pass, backend=entry.backend_kind, usage=made.body.usage)

    def _helper(self) -> None:
        refs = [*self.base(), *self.kept(("retrieval", "evidence"))]
        self.dispatch("helper", Stage.DRAFT, ProcessingPass.INFERENCE, RoleName.ELM_WORKER, refs, expert="helper")
        proposals = tuple(
            ex.ToolProposal(tool_call_id=call, tool_name="files.read", arguments=self.text(jsontext.canonical({"path": f"notes{n}.txt"})))
            for n, call in enumerate((CALL, CALL_2)[: self.calls])
        )
        self._output("helper", RoleName.ELM_WORKER, 0, tool_calls=proposals, abstained="PROPOSES")

    def _tools(self) -> None:
        refs = [*self.base(), self["output.helper"]]
        dispatch = self.dispatch("tool", Stage.TOOL, ProcessingPass.COMPUTE, RoleName.TOOL_INTERMEDIARY, refs)
        rows = [self._mediate(dispatch, call, suffix) for call, suffix in ((CALL, ""), (CALL_2, "2"))[: self.calls]]
        key = self.key(RoleName.TOOL_INTERMEDIARY)
        effects = tools.EffectReport(request_id=self.request, generation=self.generation, dispatch=dispatch.id, effects=tuple(rows))
        made = self.add("effects", effects, key, [dispatch.id])
        self.attest("tool", RoleName.TOOL_INTERMEDIARY, made, ProcessingPass.COMPUTE)

    def _mediate(self, dispatch: Signed[Any], call: str, suffix: str) -> tools.EffectSummary:
        key, output = self.key(RoleName.TOOL_INTERMEDIARY), self["output.helper"]
        dry = tools.DryRunResult(
            tool_call_id=call,
            dry_run_ok=True,
            simulated_effects=self.text("{}"),
            mock_output=tools.MockOutput(content_type=tools.ContentType.TEXT, preview=self.text("reads notes.txt")),
            risk_flags=(),
            human_approval_required=False,
            request_id=self.request,
            dry_run_kind=DryRunKind.SIMULATED,
        )
        dry_run = self.add(f"dry_run{suffix}", dry, key, [output.id])
        common: dict[str, Any] = {
            "request_id": self.request,
            "tool_call_id": call,
            "dry_run_ok": True,
            "safe_to_execute": True,
            "safe_to_memorize": False,
            "capability_hash": sha256(CAPABILITY.encode()),
            "policy_hash": policy_hash(self["mandate"].body.policies),
            "sanitizer_version": "s/1",
            "intermediary_node_id": self.cast.home,
            "timestamp_ms": self.cast.now_ms,
            "reason_code": "OK",
            "generation": self.generation,
            "turn": 0,
            "tool_name": "files.read",
            "capability": CAPABILITY,
            "effect_class": EffectClass.READ,
            "effect_key": sha256(call.encode()),
            "dry_run_kind": DryRunKind.SIMULATED,
            "expert_output": output.id,
            "dispatch": dispatch.id,
            "isolation": "in_process",
        }
        first = common | {
            "phase": AttestationPhase.DRY_RUN,
            "provenance_hash": dry_run.id,
            "dry_run": dry_run.id,
            "effect_state": EffectState.AUTHORISED,
        }
        one = self.add(f"attestation.first{suffix}", tools.ToolAttestation.model_validate(first), key, [output.id, dispatch.id])
        report = tools.StripReport(
            removed_zero_width_chars=0, removed_active_content=False, instruction_scrub_applied=False, removed_lines=0
        )
        clean = tools.SanitizedData(
            tool_call_id=call,
            source_hash=sha256(PASSAGE.encode()),
            content_type=tools.ContentType.TEXT,
            plain_text=self.text(PASSAGE),
            structured_fields=self.text("{}"),
            strip_report=report,
            request_id=self.request,
            risk_flags=(),
            sanitizer_version="s/1",
        )
        data = self.add(f"sanitized{suffix}", clean, key, [output.id])
        approval = self._approve(one) if self.approve else None
        second = common | {
            "phase": AttestationPhase.RESULT,
            "provenance_hash": data.id,
            "sanitized": data.id,
            "first_attestation": one.id,
            "effect_state": EffectState.DONE,
            "effect_class": one.body.effect_class,
            "capability": one.body.capability,
            "capability_hash": one.body.capability_hash,
        }
        if approval is not None:
            second["approval"] = approval.id
        self.add(f"attestation.second{suffix}", tools.ToolAttestation.model_validate(second), key, [output.id, dispatch.id])
        return tools.EffectSummary(
            effect_key=sha256(call.encode()),
            tool_call_id=call,
            tool_name="files.read",
            effect_class=EffectClass.READ,
            state=EffectState.DONE,
            turn=0,
            attestation=one.id,
        )

    def _approve(self, first: Signed[Any]) -> Signed[Any]:
        body = au.ApprovalDecision(
            request_id=self.request,
            tool_call_id=first.body.tool_call_id,
            effect_key=first.body.effect_key,
            attestation=first.id,
            arguments=sha256(b"arguments"),
            policy_hash=first.body.policy_hash,
            approved=True,
            approver="berta",
            not_after_ms=self.cast.now_ms + 20_000,
        )
        return self.add("approval", body, self.cast.key(self.cast.tenant, SignerRole.APPROVER), [first.id])

    def _core(self) -> None:
        names = ("retrieval", "evidence", "sanitized", "attestation.second")
        refs = [*self.base(), *self.kept(names)]
        self.dispatch("core", Stage.DRAFT, ProcessingPass.INFERENCE, RoleName.SEMANTIC_CORE, refs, turn=1, expert="core")
        cited = (
            ex.OutputEvidence(
                type=ex.EvidenceType.TOOL_OUTPUT, record=self["sanitized"].id, item=CALL, span_start=0, span_end=len(PASSAGE)
            ),
            ex.OutputEvidence(type=ex.EvidenceType.CITATION, record=self["evidence"].id, item="p0", span_start=0, span_end=len(PASSAGE)),
            ex.OutputEvidence(type=ex.EvidenceType.MEMORY_POINTER, record=self["retrieval"].id, item="m0", span_start=0, span_end=10),
        )
        self._output("core", RoleName.SEMANTIC_CORE, 1, answer=self.text("Blue Heron"), evidence=cited)

    def _end(self) -> None:
        absence = au.Absence(
            request_id=self.request,
            generation=self.generation,
            plan=self["plan"].id,
            expert_id="spare",
            stage=Stage.DRAFT,
            turn=1,
            reason="NOT_NEEDED",
        )
        self.add("absence.spare", absence, self.key(RoleName.ROUTER), [self["plan"].id])
        names = (
            "retrieval",
            "evidence",
            "output.helper",
            "dry_run",
            "attestation.first",
            "sanitized",
            "attestation.second",
            *(("dry_run2", "attestation.first2", "sanitized2", "attestation.second2") if self.calls > 1 else ()),
            *(("approval",) if self.approve else ()),
            "effects",
            "output.core",
            "absence.spare",
        )
        refs = [*self.base(), *self.kept(names)]
        if self.fails:
            return self._respond(None)
        dispatch = self.dispatch("synthesis", Stage.SYNTHESIZE, ProcessingPass.VERIFICATION, RoleName.VERIFIER, refs, turn=1)

        def member(name: str, *, cluster: int, supported: bool) -> ev.Member:
            absent = f"absence.{name}" in self.records
            return ev.Member(
                expert_id=name,
                output=None if absent else self[f"output.{name}"].id,
                absence=self[f"absence.{name}"].id if absent else None,
                cluster=cluster,
                weight=0,
                supported=supported,
            )

        answer = self.text("Blue Heron")
        body = ev.SynthesisResult(
            request_id=self.request,
            generation=self.generation,
            plan=self["plan"].id,
            dispatch=dispatch.id,
            outcome=Outcome.ANSWERED,
            reason_code="OK",
            reason=self.text("supported"),
            answer=answer,
            answer_type=AnswerType.TEXT,
            agreement=10_000,
            divergence=0,
            independent_sources=2,
            members=(
                member("core", cluster=1, supported=True),
                member("helper", cluster=0, supported=False),
                member("spare", cluster=0, supported=False),
            ),
            sources=(
                ev.AnswerSource(record=self["evidence"].id, item="p0", span_start=0, span_end=len(PASSAGE)),
                ev.AnswerSource(record=self["sanitized"].id, item=CALL, span_start=0, span_end=len(PASSAGE)),
            ),
            tool_attestations=tuple(sorted(r.id for n, r in self.records.items() if n.startswith("attestation.second"))),
            memory_used=(sha256(b"event"),),
            memory_suggestions=(),
            provisional=False,
        )
        synthesis = self.add("synthesis", body, self.key(RoleName.VERIFIER), [dispatch.id, self["plan"].id])
        self.attest("synthesis", RoleName.VERIFIER, synthesis, ProcessingPass.VERIFICATION)
        return self._respond(synthesis)

    def _respond(self, synthesis: Signed[Any] | None) -> None:
        result = synthesis.body if synthesis else None
        error = flow.ErrorDetail(code="DEADLINE", what="no time", fix="ask again", whose=Whose.REMOTE, definite=False, retryable=True)
        response = flow.AgentResponse(
            request_id=self.request,
            generation=self.generation,
            mandate=self["mandate"].id,
            synthesis=synthesis.id if synthesis else None,
            outcome=result.outcome if result else Outcome.FAILED,
            answer=result.answer if result else self.text(""),
            answer_type=result.answer_type if result else AnswerType.TEXT,
            error=None if result else error,
            effects=() if result else self["effects"].body.effects,
            agreement=result.agreement if result else 0,
            finished_at_ms=self.cast.now_ms + 100,
        )
        more = self.extra(self) if self.extra and not self.covers_no_extra else ()
        made = self.add("response", response, self.key(RoleName.INGRESS), ends([*self.kept(self.records), *more]))
        task = settlement.TaskRecord(
            task_id="99999999-8888-4777-8666-555555555555",
            request_id=self.request,
            plan_hash=self["plan"].id,
            expert_result_hashes=tuple(sorted(self[n].id for n in ("output.core", "output.helper"))),
            tool_attestation_hashes=tuple(sorted(r.id for n, r in self.records.items() if n.startswith("attestation"))),
            memory_event_hashes=(),
            final_response_hash=made.id,
            generation=self.generation,
            status=settlement.TaskStatus.SETTLED,
            reason_code="OK",
            key_mode=KeyMode.LIVE,
            price=0,
            settled_at_ms=self.cast.now_ms + 200,
        )
        self.add("task", task, self.key(RoleName.SETTLEMENT), [self["mandate"].id, made.id])


class _Stop(Exception):
    """Building stops after a named record."""


Maker = Callable[[Cast], Chain]
__all__ = [
    "ACME",
    "ALPHA",
    "BETA",
    "GAMMA",
    "GLOBEX",
    "Cast",
    "Chain",
    "Key",
    "Maker",
    "altered",
    "make_swarm",
    "replace",
    "sign",
    "with_parts",
]
