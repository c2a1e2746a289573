"""The words of this program, one meaning each; docs/glossary.md is made from here.

Words of the specification keep its meaning. Where everyday words are overloaded (event, record, contract) this list settles which
is meant (DESIGN.md section 1, Words).
"""

from __future__ import annotations

GLOSSARY: dict[str, str] = {
    "abstention": "An honest end of a request without an answer: no expert understood it, or no evidence supports one. The reason is "
    "given.",
    "absence": "A signed statement why an expert named in a plan has no output; without it the gap would be an omission.",
    "adjudication": "The choice of the one draft whose proposals go on, and the merging of equal calls, before any tool is mediated.",
    "agreement": "How far the drafts of a plan say the same, measured by the verifier over exactly the experts in the plan.",
    "approval": "A person's signed decision on one effect; it binds the arguments, the policies and the dry run, counts once and "
    "expires closed.",
    "attestation": "A signed statement by who did something: a tool attestation by the intermediary, a task attestation by a role.",
    "audit bundle": "The signed records of one request as raw bytes, with a derived manifest; anybody with the charter can check it "
    "offline.",
    "authority keys": "The k-of-n keys that sign a swarm's charter, grants and revocations.",
    "backend": "What really produces an expert's output; its kind (symbolic, extractive, openai and so on) is attested with it.",
    "bridge block": "A summary of a span of a conversation, kept as a memory class of its own.",
    "calibration": "A signed relation between an expert's confidence and how often it is right; without one a confidence carries no vote.",
    "capability": "The right to ask for one kind of operation, such as tool.files.read.readonly. Matching is equality: no wildcards.",
    "ceilings": "The most a request may use: capabilities, domains, paths, tokens, time, spend, turns, and three floors.",
    "charter": "The signed founding record of a swarm; the digest of its body is the swarm's id. All that an auditor takes on trust.",
    "chain": "The records from a request's policies to its answer, each only narrower than the one before.",
    "colocation profile": "Which roles may share a node, and how far sharing lowers their tier: dev, small_swarm or high_trust.",
    "commitment": "H(salt || text): stands for a text in signed records; the text and its salt travel sealed and can be erased.",
    "contract": "Only the boundary's: what a product's catalog allows for one intent.",
    "corpus": "A collection of documents that grounding may quote.",
    "dispatch": "The router's signed order to one peer to do one pass of work, with the budget that is left.",
    "domain": "A field of knowledge an expert declares, such as math or legal; also, in policies, a host name.",
    "draft": "An expert's proposed answer, before verification.",
    "dry run": "Checking a tool call without sending a packet or touching a file; its kind says how much it could establish.",
    "effect": "What a tool call does. Its state is durable: proposed, dry_run, awaiting_approval, authorised, executing, done, "
    "failed or indeterminate.",
    "effect key": "The identity of a tool call within a request; equal calls of parallel drafts share it and run once.",
    "ELM": "Expert language model: a small model or rule system with a declared domain; it proposes, it never acts.",
    "endorsement": "A signed vote for a memory item.",
    "epoch": "The trust log's count of changes, unless a name in front says which other epoch is meant.",
    "evidence": "Passages with source, freshness and provenance that support or contradict a claim.",
    "ExecutionPlan": "The router's signed plan for one request: experts, topology, stages, privacy, tools, budgets. Never wider than the "
    "mandate.",
    "expert": "Whoever drafts: an ELM or the semantic core, with a manifest that says what it may propose.",
    "ExpertOutput": "What an expert returns for a dispatch: answer, claims, confidence, tool proposals. It is data, never an instruction.",
    "fencing": "Refusing records of a lower generation than one already seen, so that a replaced router cannot go on.",
    "floor": "In policies: a mode that may be made stricter but not weaker. In the house: a level of rooms that imports only from below.",
    "generation": "The count of routers a request has had; a takeover is the next generation.",
    "grant": "A record of the authority that gives a node its roles, keys, tier and tenants, or a tenant its keys.",
    "grounding": "Finding passages that support an answer's claims, and saying where none do.",
    "incarnation": "The count of a node's starts, made durable before the first signature, so that sequence numbers never repeat.",
    "indeterminate": "An effect that may or may not have happened; it is never run again and is always shown.",
    "ingress": "The role that accepts a request, owns it, signs its mandate, and verifies the chain before it answers.",
    "integrity label": "Whether a value comes from a trusted source; with confidentiality it makes the pair that taint checks use.",
    "LearningEvent": "A record for later improvement of routing, experts, verification or memory.",
    "lease": "The time for which one router may act for a request.",
    "mandate": "The ingress's signed statement of what one request may use at most; every later record stays within it.",
    "manifest": "An expert's or adapter's declared capabilities, pinned by digest.",
    "memory class": "bridge_block, fact, policy, event or tenant_operational.",
    "MemoryEvent": "An immutable signed entry of the swarm's memory; the state of memory is a fold over the admitted ones.",
    "minion": "A millionth of a GNUS; amounts in records are whole minions.",
    "policy": "A document signed by a tenant's policy key; several merge to the strictest of each ceiling.",
    "privacy mode": "plaintext, restricted or private_boundary: what other nodes may see of a request. It can be raised, never lowered.",
    "privacy scope": "Who may see a memory item, from public to local_only.",
    "processing pass": "The kind of work a dispatch orders: inference, compute, data_transform, verification, retrieval or retrain.",
    "product verifier": "Only the boundary's: a check that a product's catalog requires.",
    "proof": "What the audit can say of one link: proved, attested, asserted or absent.",
    "proposal": "A tool call that an expert would like made. Only the intermediary can make it.",
    "purpose key": "A key that serves one role on one node, or one purpose, and nothing else.",
    "record": "A signed structure that crosses a boundary.",
    "role": "One of the nine parts a node may play: ingress, router, semantic_core, elm_worker, verifier, memory_index, grounding, "
    "tool_intermediary, settlement.",
    "router": "The role that classifies a request, plans it and coordinates the plan.",
    "semantic core": "The role of broad reasoning and default drafts.",
    "settlement": "The role that checks a finished chain and writes the task record, checkpoints and payouts.",
    "signed envelope": "Header, body and signature over their bytes as received; kept raw.",
    "stage": "A step of a plan: memory, ground, draft, tool, verify, synthesize; in plugins, a release stage.",
    "StatusEvent": "A step of a request under way, for whoever waits.",
    "swarm": "The nodes that hold grants under one charter.",
    "synthesis": "Composing the answer from attested outputs and permitted memory, signed by the verifier.",
    "taint": "An argument, or a choice of call, that untrusted text may have influenced.",
    "TaskRecord": "What settlement writes of a finished request; refused on a broken chain.",
    "tenant": "Whose text, policies and keys are kept apart from everybody else's.",
    "tier": "Trust of a role on a node, A to D; the effective tier is the weakest of role, grant and colocation.",
    "Tool Intermediary": "The one role that can cause a side effect; it checks, dry-runs, asks, attests, and only then executes.",
    "ToolAttestation": "The intermediary's signed statement on one dry run, and a second one on the real output.",
    "ToolProposal": "The record of a proposal: tool, arguments, why, and by whom.",
    "trust class": "higher_trust or lower_trust memory; derived from quorum certificates, never believed from an author.",
    "trust head": "A signed statement of the trust log's newest state; when it is stale, writes stop.",
    "trust log": "Charter, grants, revocations and heads; small, and on every node.",
    "turn": "One round of draft, adjudication and tool within a request.",
    "verdict tree": "The result of an audit: every link with its proof, and the first thing that does not hold.",
    "verifier": "The role that checks claims against evidence, measures agreement, arbitrates and signs the synthesis.",
    "view": "A record as JSON, with the specification's field names; the signed form is the body.",
}


def glossary_page() -> str:
    """docs/glossary.md."""
    rows = "\n".join(f"- **{term}**: {meaning}" for term, meaning in sorted(GLOSSARY.items(), key=lambda item: item[0].lower()))
    return f"# Glossary\n\n<!-- Made from gnus_node/records/glossary.py by `make schemas`; do not edit. -->\n\n{rows}\n"
