"""`cargo xtask chaos`: honest clients beside hostile ones, while the server is killed, stopped, silent, its disk full and its clock set.

It prints what was tried and what came of it, and fails when an acknowledged write is lost, an index disagrees with its records, the server ends by itself, takes more
memory than it was given, has a time that cannot be, or makes the honest wait more than so many times as long as without the hostile.
"""

import argparse
import pathlib
import random
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "crash"), str(TESTS / "chaos")]

import disturbances  # noqa: E402
import hostile  # noqa: E402
from judgement import percentile  # noqa: E402
from run import MEMORY_MIB, Run  # noqa: E402

WRONG_SHOWN = 50


def report(run):
    """Prints what was tried."""
    print("\nhostile acts")
    for name, outcomes in sorted(run.tried.items()):
        told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items(), key=lambda one: -one[1]))
        print(f"  {name:26} {sum(outcomes.values()):5}   {told}")
    print("disturbances")
    for kind in sorted(disturbances.KINDS):
        print(f"  {kind:26} {run.disturbed.get(kind, 0):5}")
    if run.disk is None:
        print("  only root can make a file system for the data, so no disk was full")
    print(f"  slowest start {run.slowest_start:.1f} s; the clock was followed up to {run.server_time.followed_seconds} s ahead")
    refused = dict(run.refused)
    for client in run.clients:
        for kind, count in client.refused.items():
            refused[kind] = refused.get(kind, 0) + count
    alone, beside = run.latencies(run.alone), run.latencies(run.beside)
    alone_p99, beside_p99 = percentile(alone, 0.99) * 1000, percentile(beside, 0.99) * 1000
    print("honest clients")
    print(f"  acknowledged writes {sum(client.acknowledged for client in run.clients)}, refused or cut off {refused}")
    print(f"  p99 {alone_p99:.1f} ms alone ({len(alone)}), {beside_p99:.1f} ms beside the hostile ({len(beside)})")
    peak = run.watch.peak_bytes
    print(f"memory: at most {peak >> 20} MiB of {MEMORY_MIB} MiB ({peak / (MEMORY_MIB << 20):.2f}), beside {', '.join(run.watch.at_peak) or 'nobody'}")


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="which random numbers")
    parser.add_argument("--losses-only", action="store_true", help="do not judge how long the honest wait: the machine is busy with other things")
    parser.add_argument("--acts", help="only these hostile acts, with commas between them")
    arguments = parser.parse_args()
    acts = sorted(arguments.acts.split(",") if arguments.acts else hostile.ACTS)
    if unknown := set(acts) - set(hostile.ACTS):
        parser.error(f"no acts {sorted(unknown)}; there are {sorted(hostile.ACTS)}")
    print(f"{arguments.minutes:g} minutes, --seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="plimsoll-chaos-") as directory:
        directory = pathlib.Path(directory)
        with disturbances.small_disk(directory) as disk:
            run = Run(directory, disk, arguments.minutes, arguments.seed, acts)
            try:
                run.go()
            finally:
                run.server.kill()
            report(run)
            wrong = run.complaints(judges_waiting=not arguments.losses_only)
    if wrong:
        print("\nwrong:\n  " + "\n  ".join(wrong[:WRONG_SHOWN]))
        sys.exit(1)
    print("\nnothing lost, nothing wrong" + (" (how long the honest waited was not judged)" if arguments.losses_only else ""))


if __name__ == "__main__":
    main()
