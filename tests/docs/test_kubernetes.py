"""The manifest in docs/: what Kubernetes' own schemas say of it, and whether its commands are ours. No cluster is used."""

import shlex
from pathlib import Path

import pytest
import yaml

from gpulayer_nb import cli

MANIFEST = Path(__file__).parents[2] / "docs" / "kubernetes.yaml"


@pytest.fixture(scope="module")
def objects():
    return {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text())}


def worker(objects):
    return objects["Job"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_every_object_is_valid_for_kubernetes(objects, version):
    import kubernetes_validate

    for each in objects.values():
        kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_catch_a_wrong_field(objects):
    import kubernetes_validate

    wrong = {**objects["Job"], "spec": {**objects["Job"]["spec"], "backofLimit": 0}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_nothing_is_ever_started_again_by_itself(objects):
    assert objects["Job"]["spec"]["backoffLimit"] == 0
    assert worker(objects)["restartPolicy"] == objects["Pod"]["spec"]["restartPolicy"] == "Never"


def test_the_commands_are_ours(objects):
    container = worker(objects)["containers"][0]
    assert container["command"][0] == "gpulayer"
    parsed = cli.parser().parse_args([*container["command"][1:], *container["args"]])
    assert str(parsed.controller) == "/etc/gpulayer/engine.json" and parsed.devices == "2"
    line = objects["Pod"]["spec"]["containers"][0]["args"][0].splitlines()[0].rstrip(" &")
    program, *words = shlex.split(line)
    assert program == "gpulayer"
    assert cli.parser().parse_args(words).name == "k8s"


def test_what_belongs_together_has_the_same_names(objects):
    labels = objects["Job"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == objects["Pod"]["metadata"]["labels"]
    assert worker(objects)["subdomain"] == objects["Service"]["metadata"]["name"]
    images = {c["image"] for c in (*worker(objects)["containers"], *objects["Pod"]["spec"]["containers"])}
    assert len(images) == 1
    volumes = {volume["name"] for volume in worker(objects)["volumes"]}
    assert {mount["name"] for mount in worker(objects)["containers"][0]["volumeMounts"]} == volumes


def test_the_secret_that_the_guide_makes_is_the_one_that_is_mounted(objects):
    guide = (MANIFEST.parent / "CLUSTERS.md").read_text()
    secret = next(volume["secret"] for volume in worker(objects)["volumes"] if "secret" in volume)
    assert f"create secret generic {secret['secretName']} --from-file=engine.json=" in guide
