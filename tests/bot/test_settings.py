"""Settings: environment over file, immutable, and all problems reported at once."""

from pathlib import Path

import pytest

from bot.settings import REMOVED_SETTINGS, RENAMED_SETTINGS, BadSettings, Settings, list_missing_for_serve, load_settings


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rackmedic.yaml"
    file.write_text("model_name: from-file\nhealth_port: 9000\n")
    settings = load_settings(file, {"RACKMEDIC_MODEL_NAME": "from-env"})
    assert (settings.model_name, settings.health_port) == ("from-env", 9000)


def test_every_problem_is_told_at_once_by_its_settings_name() -> None:
    environ = {
        "RACKMEDIC_SLACK_BOT_TOKEN": "hello",
        "RACKMEDIC_REDIS_URL": "http://x",
        "RACKMEDIC_HEALTH_PORT": "many",
        "RACKMEDIC_MODEL_SECONDS": "0",
        "RACKMEDIC_SALCK_APP_TOKEN": "xapp-typo",
    }
    with pytest.raises(BadSettings) as refused:
        load_settings(None, environ)
    told = str(refused.value)
    for name in environ:
        assert name in told
    assert "xoxb-" in told


@pytest.mark.parametrize("name", sorted(REMOVED_SETTINGS))
def test_a_removed_setting_is_refused_by_name_and_says_what_to_do(name: str, tmp_path: Path) -> None:
    file = tmp_path / "rackmedic.yaml"
    file.write_text(f"{name}: 1\n")
    for path, environ in ((None, {f"RACKMEDIC_{name.upper()}": "1"}), (file, {})):
        with pytest.raises(BadSettings) as refused:
            load_settings(path, environ)
        assert refused.value.problems == (f"RACKMEDIC_{name.upper()}: is no longer a setting; {REMOVED_SETTINGS[name]}",)
        assert "\n" not in str(refused.value)
    assert name not in Settings.model_fields


def test_what_serve_still_needs_is_named_with_the_mend() -> None:
    told = "\n".join(list_missing_for_serve(load_settings(None, {})))
    assert all(name in told for name in ("RACKMEDIC_SLACK_BOT_TOKEN", "RACKMEDIC_SLACK_APP_TOKEN", "RACKMEDIC_INVENTORY"))


def test_a_token_is_never_printed() -> None:
    settings = load_settings(None, {"RACKMEDIC_SLACK_BOT_TOKEN": "xoxb-very-secret"})
    assert "very-secret" not in repr(settings)


def test_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: [")
    with pytest.raises(BadSettings, match=r"x\.yaml: cannot be read"):
        load_settings(tmp_path / "x.yaml", {})


@pytest.mark.parametrize("name", [name for name, field in Settings.model_fields.items() if isinstance(field.default, Path)])
def test_a_default_folder_is_the_same_from_every_directory(name: str) -> None:
    folder = getattr(load_settings(None, {}), name)
    assert folder.is_absolute()
    assert "~" not in str(folder)


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]), b"\xff"],
    ids=["deep", "bomb", "bytes"],
)
def test_a_file_that_would_take_the_process_down_is_refused(text: str | bytes, tmp_path: Path) -> None:
    file = tmp_path / "rackmedic.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadSettings, match="cannot be read"):
        load_settings(file, {})


@pytest.mark.parametrize(("old", "new"), RENAMED_SETTINGS.items())
def test_an_old_name_of_a_setting_is_refused_and_the_new_one_named(old: str, new: str) -> None:
    assert new in Settings.model_fields
    with pytest.raises(BadSettings, match=f"RACKMEDIC_{new.upper()}"):
        load_settings(None, {f"RACKMEDIC_{old.upper()}": "1"})
