"""Hosting experts on a worker: build the backend, sign its manifest and registry entry (18.1.3.2.4, 18.1.3.2.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gnus_node.experts.backend import BackendInfo
from gnus_node.experts.collect import Limiter
from gnus_node.experts.registry import build_backend
from gnus_node.experts.service import Hosted
from gnus_node.net.context import RoleContext
from gnus_node.records.enums import BackendKind, CapabilityScope, Domain, ExpertRole
from gnus_node.records.envelope import Signed
from gnus_node.records.expert import Availability, CapabilityManifest, ExpertEntry, RequiredCapability, SandboxRequirements
from gnus_node.wire.digests import sha256


async def host_expert(
    context: RoleContext,
    *,
    expert_id: str,
    version: str,
    role: ExpertRole,
    domains: Sequence[Domain],
    license: str,
    backend: Mapping[str, Any],
) -> Hosted:
    """Open one expert's backend and sign what the registry shows of it. Raises ``CONFIG``, ``UNREACHABLE``, ``BACKEND_FAILED``."""
    built = build_backend({"id": expert_id, **backend}, context.node.offload, context.node.servers)
    await built.open()
    info = built.info
    artifact = info.artifact_sha256
    manifest = context.signer.sign(
        CapabilityManifest(
            module_name=expert_id,
            module_version=version,
            artifact_hash=artifact or sha256(f"{info.engine}/{info.engine_version}/{info.model_id}".encode()),
            required_capabilities=tuple(
                RequiredCapability(name=name, scope=CapabilityScope.PROPOSAL_ONLY, constraints=()) for name in sorted(info.capabilities)
            ),
            sandbox_requirements=_requirements(info),
        )
    )
    entry = context.signer.sign(
        ExpertEntry(
            expert_id=expert_id,
            expert_version=version,
            expert_role=role,
            domains=tuple(sorted(domains)),
            backend_kind=info.kind,
            model_id=info.model_id,
            model_license=license or info.model_license,
            artifact_hash=artifact,
            calibration_id=info.calibration_id,
            manifest=manifest.id,
            node_id=context.node.node_id,
            key=context.signer.key,
            slots=info.slots,
            max_context_tokens=info.ctx,
        ),
        refs=[manifest.id],
    )
    return Hosted(built, entry, manifest, Limiter(info.slots))


def _requirements(info: BackendInfo) -> SandboxRequirements:
    """What the backend's kind needs; only the HTTP backend reaches out, to the operator's URL. An embedded model is a file."""
    network = Availability.ENABLED if info.kind is BackendKind.OPENAI else Availability.DISABLED
    files = Availability.READONLY if info.kind in (BackendKind.REPLAY, BackendKind.EMBEDDED) else Availability.DISABLED
    return SandboxRequirements(network=network, filesystem=files, clock=Availability.COARSE, randomness=Availability.DISABLED)


class Spec(Protocol):
    """One configured expert, as the role host names it."""

    @property
    def expert_id(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def role(self) -> ExpertRole: ...

    @property
    def domains(self) -> tuple[Domain, ...]: ...

    @property
    def license(self) -> str: ...

    @property
    def backend(self) -> Mapping[str, Any]: ...


async def host_all(context: RoleContext, specs: Sequence[Spec], offer: Callable[[Signed[Any]], None], hosted: dict[str, Hosted]) -> None:
    """Host every spec and offer its manifest and entry; each stands in ``hosted``, which its owner closes, once it is open.

    Raises as ``host_expert``."""
    for spec in specs:
        one = await host_expert(
            context,
            expert_id=spec.expert_id,
            version=spec.version,
            role=spec.role,
            domains=spec.domains,
            license=spec.license,
            backend=spec.backend,
        )
        hosted[spec.expert_id] = one
        offer(one.manifest)
        offer(one.entry)


async def close_all(hosted: Mapping[str, Hosted]) -> None:
    """Close every backend."""
    for one in hosted.values():
        await one.backend.aclose()
