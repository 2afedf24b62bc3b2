# SPDX-License-Identifier: Apache-2.0
"""Specs whose digests must not depend on what is around a run, nor on the lab kernel's event loop."""

from dc_gym.benchmarks.studies.demo import STUDY
from dc_gym.run import sweep
from dc_gym.study import StudyOptions, collect

OTHERS = {
    "nic-dcqcn": """
spec_version = 1
name = "other"
topology = { preset = "dctcp-10g", marking = "red-instant", kmin = "20p", kmax = "160p", pmax = "20%" }
controller.name = "dcqcn"
nic.latency = "900ns"
workload.kind = "many_to_one"
time = { duration = "200ms" }
monitor.interval = "1ms"
""",
    "nic-swift": """
spec_version = 1
name = "other"
topology.preset = "dctcp-10g"
controller.name = "swift"
workload.kind = "many_to_one"
time = { duration = "200ms" }
monitor.interval = "1ms"
""",
    "agent": """
spec_version = 1
name = "other"
topology = { preset = "dumbbell-10m", marking = "iroko-thesis" }
controller = { name = "dctcp", policy = "fair-share" }
agent = { interval = "10ms", control = "network", control_loss = "2%" }
workload = { kind = "pairs", jitter = "10ms" }
time = { duration = "5s" }
""",
}
"""Specs by name that run besides the demo's cases: NICs, whose loader works while traffic runs, and an agent."""

PACED = """
spec_version = 1
name = "other"
topology = {{ preset = "dumbbell-1g", host_qdisc = "{qdisc}" }}
controller.name = "bbr"
workload = {{ kind = "pairs", jitter = "1ms" }}
time = {{ duration = "300ms" }}
monitor.interval = "1ms"
"""
AVERAGED = """
spec_version = 1
name = "other"
topology = { preset = "fattree-k4", rate = "100Mbit/s", marking = "iroko-thesis" }
controller.name = "cubic"
workload = { kind = "poisson", load = 0.5, size = "100kB" }
time = { duration = "300ms" }
monitor.interval = "1ms"
"""
"""RED with an average counts how long a queue was idle."""
MORE = {"bbr-fq": PACED.format(qdisc="fq"), "bbr-fifo": PACED.format(qdisc="bfifo"), "red-average": AVERAGED}


def demo_cells(folder, *names):
    """Returns the demo's runs with seed 1, or those of some variants, after writing their specs."""
    cells = []
    for variant in STUDY.chosen(StudyOptions(folder, variants=names)):
        point = collect.point(STUDY, variant, StudyOptions(folder), 1)
        spec = folder / f"{point.name}.json"
        spec.write_text(point.spec.to_json())
        cells.append(sweep.Cell(point.name, spec, folder / point.name, (), ("--no-plot", "--force")))
    return cells
