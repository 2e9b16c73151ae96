"""Both ends of the provider link are off by default, and an unusable setting is refused with its fix."""

from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis

from bot.app.provider import load_intake_keys
from bot.cli.doctor.integrations import check_intake, check_provider_link
from bot.refusal import Refusal
from bot.settings import BadSettings, load_settings
from tests.support.clock import WallClock
from tests.support.intakes import SITE, provider

KEY = "whsec_" + "QUJD" * 12


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"PROVIDER_URL": "http://intake.example/intake/acme", "PROVIDER_KEY": KEY}, "https://"),
        ({"PROVIDER_URL": "intake.example", "PROVIDER_KEY": KEY}, "https://"),
        ({"PROVIDER_URL": "https://intake.example/intake/acme"}, "PROVIDER_KEY"),
        ({"PROVIDER_KEY": KEY}, "PROVIDER_URL"),
        ({"HTTP_PORT": "8443"}, "INTAKE_KEYS"),
        ({"INTAKE_KEYS": "/etc/keys.yaml"}, "HTTP_PORT"),
        ({"INTAKE_PORT": "8443", "INTAKE_KEYS": "/etc/keys.yaml"}, "RACKMEDIC_INTAKE_PORT: is called RACKMEDIC_HTTP_PORT now"),
    ],
)
def test_half_a_line_is_refused(environ: dict[str, str], says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        load_settings(None, {f"RACKMEDIC_{name}": value for name, value in environ.items()})


def test_a_line_to_this_machine_itself_may_be_plain_and_no_line_is_the_default() -> None:
    settings = load_settings(None, {"RACKMEDIC_PROVIDER_URL": "http://127.0.0.1:1/intake/acme", "RACKMEDIC_PROVIDER_KEY": KEY})
    assert KEY not in repr(settings)
    assert (load_settings(None, {}).provider_url, load_settings(None, {}).http_port) == ("", 0)


def test_keys_are_read_by_tenant_old_and_new(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(f"acme: [{KEY}, {KEY}]\nglobex: {KEY}\n")
    assert {tenant: len(keys) for tenant, keys in load_intake_keys(file, SITE).items()} == {"acme": 2, "globex": 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [("acme: [hello]", "acme: must be whsec_"), (f"initech: [{KEY}]", "initech: no host"), ("[]", "mapping"), ("a: [", "cannot be read")],
)
def test_keys_that_are_none_are_refused_and_never_printed(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(Refusal, match=says) as refused:
        load_intake_keys(file, SITE)
    assert KEY not in str(refused.value)


async def test_the_doctor_tries_the_line_and_says_how_to_mend_it(tmp_path: Path) -> None:
    assert await check_provider_link(load_settings(None, {})) == []
    async with FakeAsyncRedis() as redis, provider(redis, WallClock()) as at:
        for key, state in ((at.written_key, "ok"), (KEY, "fail")):
            environ = {"RACKMEDIC_PROVIDER_URL": f"{at.url}/intake/acme", "RACKMEDIC_PROVIDER_KEY": key}
            [finding] = await check_provider_link(load_settings(None, environ))
            assert finding.state == state
    file = tmp_path / "keys.yaml"
    file.write_text(f"acme: [{KEY}]\n")
    settings = load_settings(None, {"RACKMEDIC_HTTP_PORT": "8443", "RACKMEDIC_INTAKE_KEYS": str(file)})
    [kept] = check_intake(settings, SITE)
    assert (kept.state, "acme (1)" in kept.says, KEY in kept.says) == ("ok", True, False)
    file.write_text("acme: [hello]")
    [broken] = check_intake(settings, SITE)
    assert broken.state == "fail"
