"""The state of virtual machines, and the input of their first boot."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.connect.kubernetes.machines import (
    RunnerMachine,
    build_machine,
    data_volume_names,
    find_import_problem,
    find_loss,
    find_machine_problem,
    find_wait,
    format_conditions,
    instances_of,
    is_running,
    machines_of,
    read_placement,
    script,
    user_data,
)
from leadline.connect.kubernetes.objects import labels_of
from leadline.plan.kubernetes_cluster import BootImage, KubernetesCluster, VmSettings
from leadline.plan.volume_request import volume_request
from tests.unit.connect.kubernetes.api_double import Answer, ApiDouble, refusal


def _instance(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "vm-0", "uid": "u1"},
        "status": {"phase": "Running", "nodeName": "n1"} | status,
    }


def _condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    "answer",
    [
        # Of a group that no resource definition has, and of a resource that its group lacks.
        Answer(status=404, body=b"404 page not found", kind="text/plain"),
        refusal(404, "the server could not find the requested resource"),
    ],
)
def test_a_cluster_without_kubevirt_has_no_machines(
    api: ApiDouble, tmp_path: Path, answer: Answer
) -> None:
    api.say = lambda asked: answer
    with api.connection(tmp_path) as connection:
        assert machines_of(connection, "ns", "t1") == []
        assert instances_of(connection, "ns", "t1") == []


def test_one_that_runs_where_it_was_is_no_trouble() -> None:
    found = _instance(conditions=[_condition("Ready", "True")])
    assert is_running(found)
    assert find_loss(found, read_placement(found)) is None


@pytest.mark.parametrize(
    ("found", "says", "hint"),
    [
        (_instance(phase="Failed", reason="Evicted"), "ended: Failed, Evicted", "resume"),
        (_instance(phase="Succeeded"), "ended: Succeeded", "resume"),
        (
            _instance(conditions=[_condition("Paused", "True", "PausedIOError", "low space")]),
            "is paused: low space",
            "health of the volume",
        ),
        (
            _instance(conditions=[_condition("Paused", "True", "PausedByUser", "by a user")]),
            "is paused: by a user",
            "virtctl unpause",
        ),
        (_instance(nodeName="n2"), "moved from the node 'n1' to 'n2'", "live migrations"),
        (
            _instance(migrationState={"targetNode": "n3", "completed": False}),
            "being moved to the node 'n3'",
            "live migrations",
        ),
        (
            {"metadata": {"name": "vm-0", "uid": "u2"}, "status": {"nodeName": "n1"}},
            "replaced by another",
            "resume",
        ),
        (
            {
                "metadata": {
                    "name": "vm-0",
                    "uid": "u1",
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                }
            },
            "is being deleted",
            "drained",
        ),
    ],
)
def test_one_that_is_lost_is_reported(found: dict[str, Any], says: str, hint: str) -> None:
    problem = find_loss(found, read_placement(_instance()))
    assert problem is not None
    assert problem.final
    assert says in problem.fact
    assert hint in problem.hint


def test_a_migration_that_ended_before_is_no_trouble() -> None:
    found = _instance(migrationState={"targetNode": "n1", "completed": True})
    assert find_loss(found, read_placement(found)) is None


@pytest.mark.parametrize(
    ("status", "final"),
    [("CrashLoopBackOff", True), ("DataVolumeError", True), ("ErrImagePull", False)],
)
def test_what_a_machine_says_of_itself(status: str, final: bool) -> None:
    problem = find_machine_problem(
        {"metadata": {"name": "vm"}, "status": {"printableStatus": status}}
    )
    assert problem is not None
    assert problem.final is final
    starting = {"metadata": {"name": "vm"}, "status": {"printableStatus": "Starting"}}
    assert find_machine_problem(starting) is None


def test_why_an_instance_waits() -> None:
    unschedulable = _condition("PodScheduled", "False", "Unschedulable", "0/3 nodes: no \x1b[m cpu")
    problem = find_wait(_instance(phase="Scheduling", conditions=[unschedulable]))
    assert problem is not None
    assert not problem.final
    assert "0/3 nodes: no \x1b[m cpu" in problem.fact
    assert find_wait(_instance(conditions=[_condition("PodScheduled", "True")])) is None


def test_an_import_that_fails_is_reported() -> None:
    says = "Unable to connect to http data source: expected status code 200, got 404"
    volume: dict[str, Any] = {
        "metadata": {"name": "boot"},
        "status": {
            "phase": "ImportInProgress",
            "conditions": [_condition("Running", "False", "Error", says)],
        },
    }
    problem = find_import_problem(volume)
    assert problem is not None
    assert says in problem.fact
    assert not problem.final
    volume["status"]["phase"] = "Failed"
    assert (find_import_problem(volume) or problem).final is True
    volume["status"]["phase"] = "Succeeded"
    assert find_import_problem(volume) is None


def test_an_object_without_status_says_nothing() -> None:
    assert format_conditions({"metadata": {"name": "vm"}}) == []
    assert find_machine_problem({"metadata": {"name": "vm"}}) is None
    assert not is_running({"metadata": {"name": "vm"}})


_BOOT = BootImage(container_disk="registry.example/boot:1")


def test_cloud_init_reads_the_scripts_as_they_are() -> None:
    text = user_data(VmSettings(boot=_BOOT))
    assert text.startswith("#cloud-config\n")
    seed = yaml.safe_load(text)
    written = {write_file["path"]: write_file["content"] for write_file in seed["write_files"]}
    assert written["/usr/local/lib/leadline/guest_agent.sh"] == script("guest_agent.sh")
    assert seed["runcmd"] == [["sh", "/usr/local/lib/leadline/guest_setup.sh", "fio"]]


def test_packages_and_proxy_reach_the_setup_as_words() -> None:
    settings = VmSettings(boot=_BOOT, packages=("fio", "a b"), proxy="http://proxy:3128/?a=$x")
    (command,) = yaml.safe_load(user_data(settings))["runcmd"]
    assert command[-2:] == ["fio", "a b"]
    assert "https_proxy=http://proxy:3128/?a=$x" in command[1:5]


def test_a_task_starts_before_the_agent_and_installs_nothing() -> None:
    settings = VmSettings(boot=_BOOT, proxy="http://proxy:3128")
    seed = yaml.safe_load(user_data(settings, ("echo $1\n", "it's", "b c")))
    written = {write_file["path"]: write_file["content"] for write_file in seed["write_files"]}
    folder = "/usr/local/lib/leadline"
    assert written[f"{folder}/guest_task.sh"] == "echo $1\n"
    task, setup = seed["runcmd"]
    assert task[:2] == ["sh", "-c"]
    assert task[-3:] == [f"{folder}/guest_task.sh", "it's", "b c"]
    assert setup == ["env", "LEADLINE_PROGRAMS=", "sh", f"{folder}/guest_setup.sh"]


@pytest.mark.parametrize("given", [None, 40 << 30])
def test_a_golden_image_gives_its_size_unless_the_plan_does(given: int | None) -> None:
    boot = BootImage(data_source="golden/rhel9", size=given)
    asked = RunnerMachine(
        name="vm-0",
        namespace="mine",
        labels=labels_of("run", "t1", 1),
        storage_class="fast",
        request=volume_request({"runner": "vm"}),
        size_bytes=1 << 30,
    )
    machine = build_machine(asked, KubernetesCluster(), VmSettings(boot=boot))
    (template,) = machine["spec"]["dataVolumeTemplates"]
    storage = {} if given is None else {"resources": {"requests": {"storage": str(given)}}}
    source = {"kind": "DataSource", "namespace": "golden", "name": "rhel9"}
    assert template["spec"] == {"sourceRef": source, "storage": storage}
    assert data_volume_names(machine) == [template["metadata"]["name"]] == ["vm-0-boot"]
    boots = machine["spec"]["template"]["spec"]["volumes"][0]
    assert boots == {"name": "boot", "dataVolume": {"name": "vm-0-boot"}}


@pytest.mark.parametrize("name", ["guest_agent.sh", "guest_setup.sh"])
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_scripts_are_of_a_plain_shell(name: str, shell: str) -> None:
    checked = subprocess.run(
        [shell, "-n"], input=script(name), text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_secret_may_hold_it() -> None:
    """1 MiB is a Secret's limit; cloud-init's own for user data is of the cloud."""
    assert len(user_data(VmSettings(boot=_BOOT))) < 16384


def test_a_machine_is_sized_and_its_disk_attached_as_the_target_says() -> None:
    options = {
        "runner": "vm",
        "cores": "3",
        "memory": "6Gi",
        "bus": "scsi",
        "cache": "writeback",
        "dedicated": "yes",
        "spread": "node",
        "count": "2",
    }
    runner = RunnerMachine(
        name="m",
        namespace="ns",
        labels=labels_of("perf-1", "abc", 1),
        storage_class="fast",
        request=volume_request(options),
        size_bytes=1 << 30,
    )
    settings = VmSettings(boot=BootImage(container_disk="image"), io_threads=True)
    spec = build_machine(runner, KubernetesCluster(), settings).to_dict()["spec"]["template"][
        "spec"
    ]
    assert spec["domain"]["cpu"] == {"cores": 3, "dedicatedCpuPlacement": True}
    assert spec["domain"]["resources"]["limits"] == {"cpu": "3", "memory": "6144Mi"}
    disk = spec["domain"]["devices"]["disks"][1]
    assert disk == {
        "name": "volume",
        "disk": {"bus": "scsi"},
        "cache": "writeback",
        "io": "threads",
        "serial": "leadline",
    }
    (constraint,) = spec["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"


def test_threads_of_a_target_replace_those_of_its_cluster() -> None:
    def threads(**options: str) -> bool:
        runner = RunnerMachine(
            name="m",
            namespace="ns",
            labels=labels_of("perf-1", "abc", 1),
            storage_class="fast",
            request=volume_request({"runner": "vm", **options}),
            size_bytes=1 << 30,
        )
        settings = VmSettings(boot=BootImage(container_disk="image"), io_threads=True)
        made = build_machine(runner, KubernetesCluster(), settings).to_dict()
        disks = made["spec"]["template"]["spec"]["domain"]["devices"]["disks"]
        return bool(disks[1].get("dedicatedIOThread", False))

    assert threads()
    assert not threads(io_threads="no")
