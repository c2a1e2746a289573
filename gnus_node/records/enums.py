"""Every enumeration that crosses a boundary, with its order where it has one.

Ordered enumerations list their members from the weakest to the strictest; ``rank()`` is the position. Values are the
seed's words verbatim (18.1.3), so that a record reads like the specification.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import cache
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema


class WireEnum(StrEnum):
    """A text enumeration read exactly: a member or its value, nothing coerced; written as its plain text value."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """One strict rule for bodies and views alike (DECISIONS, Bytes)."""
        choices = [str(m.value) for m in cls]
        members = {str(m.value): m for m in cls}

        def read(value: object) -> WireEnum:
            found = members.get(value) if isinstance(value, str) else None
            if found is None:
                raise ValueError(f"not one of {', '.join(choices)}")
            return found

        return core_schema.no_info_plain_validator_function(
            read,
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema()),
            metadata={"pydantic_js_functions": [lambda _s, _h: {"type": "string", "enum": choices}]},
        )


class OrderedStr(WireEnum):
    """A text enumeration whose members are declared from the least to the most strict."""

    def rank(self) -> int:
        """Position in declaration order; a higher rank is stricter."""
        return self._ranks()[self]

    @classmethod
    @cache
    def _ranks(cls) -> dict[OrderedStr, int]:
        return {member: rank for rank, member in enumerate(cls)}


class RoleName(WireEnum):
    """The nine roles a node may host (18.1.2.2)."""

    INGRESS = "ingress"
    ROUTER = "router"
    SEMANTIC_CORE = "semantic_core"
    ELM_WORKER = "elm_worker"
    VERIFIER = "verifier"
    MEMORY_INDEX = "memory_index"
    GROUNDING = "grounding"
    TOOL_INTERMEDIARY = "tool_intermediary"
    SETTLEMENT = "settlement"


class SignerRole(WireEnum):
    """Whose key signed a record: one of the nine roles, or a purpose outside them (DESIGN.md section 5)."""

    INGRESS = "ingress"
    ROUTER = "router"
    SEMANTIC_CORE = "semantic_core"
    ELM_WORKER = "elm_worker"
    VERIFIER = "verifier"
    MEMORY_INDEX = "memory_index"
    GROUNDING = "grounding"
    TOOL_INTERMEDIARY = "tool_intermediary"
    SETTLEMENT = "settlement"
    TRANSPORT = "transport"
    AUTHORITY = "authority"
    HEAD = "head"
    POLICY = "policy"
    APPROVER = "approver"
    CLIENT = "client"


class Tier(IntEnum):
    """Trust tier of a (node, role); a larger number is more trusted (18.1.2.2.2). JSON carries the name."""

    D = 0
    C = 1
    B = 2
    A = 3

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """A tier is its name in every form; the number never leaves the process."""

        def read(value: object) -> Tier:
            if isinstance(value, cls):
                return value
            if isinstance(value, str) and value in cls.__members__:
                return cls[value]
            raise ValueError("not one of A, B, C, D")

        return core_schema.no_info_before_validator_function(
            read,
            core_schema.is_instance_schema(cls),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda v: v.name, return_schema=core_schema.str_schema()),
            metadata={"pydantic_js_functions": [lambda _s, _h: {"type": "string", "enum": ["A", "B", "C", "D"]}]},
        )


class ColocationProfile(OrderedStr):
    """Which roles may share a node (18.1.2.2.1); data in configs/policies."""

    DEV = "dev"
    SMALL_SWARM = "small_swarm"
    HIGH_TRUST = "high_trust"


class IndependenceUnit(WireEnum):
    """What counts as one voice in a quorum."""

    OPERATOR = "operator"
    NODE = "node"


class ExpertRole(WireEnum):
    """The role an expert plays in a plan (18.1.3.2.3)."""

    SEMANTIC_CORE = "semantic_core"
    PLANNER = "planner"
    PRIMARY_DRAFT = "primary_draft"
    VERIFIER = "verifier"
    ARBITER = "arbiter"
    REFINER = "refiner"
    FORMATTER = "formatter"
    GROUNDING = "grounding"
    TOOL_SUPPORT = "tool_support"
    DOMAIN_EXPERT = "domain_expert"


class Domain(WireEnum):
    """Domains an expert may declare: the eight of 18.1.3.2.2, plus ``general`` for the semantic core."""

    GENERAL = "general"
    MATH = "math"
    CODE = "code"
    SCIENCE = "science"
    LEGAL = "legal"
    FINANCE = "finance"
    OPERATIONS = "operations"
    CUSTOMER_SUPPORT = "customer_support"
    PRIVATE_ENTERPRISE = "private_enterprise"


class Intent(WireEnum):
    """What a question wants, as the router classifies it."""

    ARITHMETIC = "arithmetic"
    FACT = "fact"
    SYSTEM = "system"
    FILE = "file"
    CODE = "code"
    GENERAL = "general"
    UNKNOWN = "unknown"


class Risk(OrderedStr):
    """Risk class of a request; higher ranks force stricter plans."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class BackendKind(WireEnum):
    """What really produced an output; attested, so that a rule never poses as a model."""

    OPENAI = "openai"
    EMBEDDED = "embedded"
    SYMBOLIC = "symbolic"
    EXTRACTIVE = "extractive"
    WASM = "wasm"
    REPLAY = "replay"
    FAULTY = "faulty"
    SERVICE = "service"


class ExecutionMode(WireEnum):
    """How wide a plan fans out (18.1.3.1.4)."""

    SINGLE_NODE = "single_node"
    ELM_ASSISTED = "elm_assisted"
    SWARM = "swarm"
    AGENT = "agent"


class Topology(WireEnum):
    """How drafts relate (18.1.3.1.4)."""

    SINGLE = "single"
    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    PARALLEL_WITH_ARBITER = "parallel_with_arbiter"


class Stage(WireEnum):
    """Stages of an execution graph (18.1.3.1.4). A plan holds a set; the flow table fixes the order."""

    MEMORY = "memory"
    DRAFT = "draft"
    VERIFY = "verify"
    GROUND = "ground"
    TOOL = "tool"
    SYNTHESIZE = "synthesize"


class ProcessingPass(WireEnum):
    """Processing passes in which agent work is expressed (18.1.5.2)."""

    INFERENCE = "inference"
    COMPUTE = "compute"
    DATA_TRANSFORM = "data_transform"
    VERIFICATION = "verification"
    RETRIEVAL = "retrieval"
    RETRAIN = "retrain"


class PrivacyMode(OrderedStr):
    """Privacy of a request, weakest first (18.1.3.1.4)."""

    PLAINTEXT = "plaintext"
    RESTRICTED = "restricted"
    PRIVATE_BOUNDARY = "private_boundary"


class MemoryMode(OrderedStr):
    """Which memory may be used, weakest restriction first (18.1.3.1.4)."""

    POLICY_SCOPED = "policy_scoped"
    TRUSTED_ONLY = "trusted_only"
    NONE = "none"


class ApprovalMode(OrderedStr):
    """Human gating templates, weakest first (18.1.3.8.11)."""

    DELEGATED = "delegated"
    DEFAULT = "default"
    STEP_BY_STEP = "step_by_step"
    READ_ONLY = "read_only"


class SandboxPlatform(WireEnum):
    """Sandbox platforms a plan may ask for (18.1.3.1.4, 18.1.3.8.13)."""

    SERVER_FIRECRACKER = "server_firecracker"
    SERVER_MICROVM_QEMU = "server_microvm_qemu"
    LINUX_NAMESPACES = "linux_namespaces"
    WASM = "wasm"
    IN_PROCESS = "in_process"
    IOS = "ios"
    ANDROID = "android"


class CapabilityScope(OrderedStr):
    """What a manifest's capability allows, narrowest first (18.1.3.2.5)."""

    READONLY = "readonly"
    PROPOSAL_ONLY = "proposal_only"
    EXECUTE = "execute"


class EffectClass(OrderedStr):
    """What a tool does to the world."""

    READ = "read"
    EGRESS = "egress"
    WRITE = "write"


class EffectState(WireEnum):
    """States of one tool effect (DESIGN.md section 6)."""

    PROPOSED = "proposed"
    DRY_RUN = "dry_run"
    AWAITING_APPROVAL = "awaiting_approval"
    AUTHORISED = "authorised"
    EXECUTING = "executing"
    DONE = "done"
    FAILED_DEFINITE = "failed_definite"
    INDETERMINATE = "indeterminate"
    REFUSED = "refused"


class DryRunKind(WireEnum):
    """How much a dry run could establish without touching anything."""

    SIMULATED = "simulated"
    VALIDATED_ONLY = "validated_only"
    NONE = "none"


class AttestationPhase(WireEnum):
    """A first attestation binds the dry run, a second the real output (DESIGN.md section 2)."""

    DRY_RUN = "dry_run"
    RESULT = "result"


class MemoryClass(WireEnum):
    """Logical memory classes (18.1.3.4.2)."""

    BRIDGE_BLOCK = "bridge_block"
    FACT = "fact"
    POLICY = "policy"
    EVENT = "event"
    TENANT_OPERATIONAL = "tenant_operational"


class TrustClass(OrderedStr):
    """Trust class of memory: derived by the fold, never believed from an author (18.1.3.4.8)."""

    LOWER_TRUST = "lower_trust"
    HIGHER_TRUST = "higher_trust"


class SourceType(WireEnum):
    """Where a memory event's content came from (18.1.3.4.8)."""

    USER = "user"
    TOOL = "tool"
    WEB = "web"
    EXPERT = "expert"
    SYNTHESIS = "synthesis"


class ConsensusState(WireEnum):
    """Derived consensus state of a memory event (18.1.3.4.8)."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class MemoryEventKind(WireEnum):
    """Kinds of memory events."""

    CANDIDATE = "candidate"
    ATTEST = "attest"
    QUORUM_CERT = "quorum_cert"
    DEMOTE = "demote"
    CRDT_DELTA = "crdt_delta"
    ERASE = "erase"
    SHRED_RECEIPT = "shred_receipt"
    KEY_REVOKE = "key_revoke"
    MEMBER_EPOCH = "member_epoch"
    CHECKPOINT = "checkpoint"
    EQUIVOCATION_PROOF = "equivocation_proof"


class PrivacyScope(OrderedStr):
    """Who may see an item, widest first (gnus-definitions, memory)."""

    PUBLIC = "public"
    SHARED = "shared"
    TENANT_PRIVATE = "tenant_private"
    ENTERPRISE_PRIVATE = "enterprise_private"
    TRUSTED_DEVICES = "trusted_devices"
    USER_PRIVATE = "user_private"
    LOCAL_ONLY = "local_only"


class ReplicationPolicy(OrderedStr):
    """How far an item may travel, widest first (gnus-definitions, memory)."""

    PUBLIC_SWARM = "public_swarm"
    TENANT_NODES = "tenant_nodes"
    PRIVATE_SUBNET = "private_subnet"
    TRUSTED_DEVICES = "trusted_devices"
    NONE = "none"


class AnswerType(WireEnum):
    """What an answer's text is."""

    TEXT = "text"
    JSON = "json"


class Outcome(WireEnum):
    """How a request ended."""

    ANSWERED = "answered"
    ABSTAINED = "abstained"
    PARTIAL_EFFECTS = "partial_effects"
    PENDING_APPROVAL = "pending_approval"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Whose(WireEnum):
    """Whose fault an error is."""

    LOCAL = "local"
    REMOTE = "remote"
    POLICY = "policy"


class PolicyLevel(OrderedStr):
    """Levels of policy documents; a later level only narrows."""

    WORKSPACE = "workspace"
    PROJECT = "project"
    USER = "user"
    SESSION = "session"


class KeyMode(WireEnum):
    """Whether an API key works on live or on test releases (price 0)."""

    TEST = "test"
    LIVE = "live"


class Proof(WireEnum):
    """What the audit can say of one link (DESIGN.md section 2)."""

    PROVED = "proved"
    ATTESTED = "attested"
    ASSERTED = "asserted"
    ABSENT = "absent"


class UsageSource(WireEnum):
    """Whether token counts came from the server or were counted here."""

    REPORTED = "reported"
    COUNTED = "counted"
    NONE = "none"


class SourceClass(WireEnum):
    """Class of a grounding corpus (18.1.3.5.2)."""

    PUBLIC = "public"
    PRIVATE_TENANT = "private_tenant"
    TOOL = "tool"
    MEMORY = "memory"


class LearningQueue(WireEnum):
    """Queues a learning event may feed (18.1.4.2)."""

    ROUTER = "router"
    ELM = "elm"
    VERIFIER = "verifier"
    MEMORY_GOVERNOR = "memory_governor"
