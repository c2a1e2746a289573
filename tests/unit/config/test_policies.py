"""The shipped templates and profiles: what they promise in their description holds in their data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.config.policies import ColocationRules, builtin_policies, load_colocation, load_policy, load_template
from gnus_node.records.enums import ApprovalMode, ColocationProfile, RoleName, Tier
from gnus_node.records.errors import GnusError

EXPERTS = {RoleName.SEMANTIC_CORE, RoleName.ELM_WORKER}
PROFILES = {profile: load_colocation(profile) for profile in ColocationProfile}
role_sets = st.sets(st.sampled_from(list(RoleName)), min_size=1)


@pytest.mark.parametrize("name", [mode.value for mode in ApprovalMode])
def test_each_template_has_its_own_approval_floor_and_pre_grants_nothing(name: str):
    ceilings = load_template(name, tool_roots=[Path("/srv/b"), Path("/srv/a")])
    assert ceilings.approval_floor is ApprovalMode(name)
    assert ceilings.pre_granted == ()
    assert ceilings.domains == ()
    assert ceilings.paths == ("/srv/a", "/srv/b")
    assert all(capability.endswith(".readonly") for capability in ceilings.capabilities)


def test_without_tool_roots_no_path_is_open():
    assert load_template("default").paths == ()


def test_an_unknown_template_and_a_misnamed_profile_are_refused(tmp_path: Path):
    with pytest.raises(GnusError, match="no such policy template"):
        load_template("../default")
    (tmp_path / "dev.toml").write_text((builtin_policies() / "high_trust.toml").read_text())
    with pytest.raises(GnusError, match="holds the profile high_trust"):
        load_colocation(ColocationProfile.DEV, directory=tmp_path)


def test_a_bad_policy_file_points_at_the_line(tmp_path: Path):
    text = (builtin_policies() / "default.toml").read_text()
    path = tmp_path / "p.toml"
    path.write_text(text.replace('paths = ["@roots"]', 'paths = ["relative"]'))
    line = text[: text.index("paths")].count("\n") + 1
    with pytest.raises(GnusError, match=f"p.toml:{line}: paths"):
        load_policy(path)


def test_the_seed_s_colocation_rules_hold():
    trio = [RoleName.ROUTER, RoleName.VERIFIER, RoleName.TOOL_INTERMEDIARY]
    PROFILES[ColocationProfile.SMALL_SWARM].check(trio)
    for profile in (ColocationProfile.SMALL_SWARM, ColocationProfile.HIGH_TRUST):
        for expert in EXPERTS:
            with pytest.raises(GnusError) as caught:
                PROFILES[profile].check([RoleName.SETTLEMENT, expert])
            assert caught.value.code == "COLOCATION"
    for expert in EXPERTS:
        with pytest.raises(GnusError):
            PROFILES[ColocationProfile.HIGH_TRUST].check([RoleName.TOOL_INTERMEDIARY, expert])
    PROFILES[ColocationProfile.DEV].check(list(RoleName))


@pytest.mark.parametrize("rules", PROFILES.values(), ids=str)
def test_every_role_has_its_seed_tier_alone(rules: ColocationRules):
    assert set(rules.tiers) == set(RoleName)
    assert rules.tier_of(RoleName.SETTLEMENT, [RoleName.SETTLEMENT]) is Tier.A
    assert rules.tier_of(RoleName.ROUTER, [RoleName.ROUTER]) is Tier.B
    assert rules.tier_of(RoleName.ELM_WORKER, [RoleName.ELM_WORKER]) is Tier.C


@given(st.sampled_from(list(ColocationProfile)), role_sets, role_sets)
def test_more_neighbours_never_raise_a_tier_nor_lift_a_ban(profile: ColocationProfile, some: set[RoleName], more: set[RoleName]):
    rules = PROFILES[profile]
    assert set(rules.clashes(some)) <= set(rules.clashes(some | more))
    for role in some:
        assert rules.tier_of(role, some | more) <= rules.tier_of(role, some) <= rules.tiers[role]
