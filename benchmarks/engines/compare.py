"""Runs the SERVER-44991 workload on storage engines, one after the other, and puts their figures side by side.

    python3 benchmarks/engines/compare.py --work DIR                      everything: about an hour
    python3 benchmarks/engines/compare.py --work DIR --documents 100000 --stall-seconds 30 --engines plimsoll,rocksdb

Builds what it runs in DIR/build: the engines' packages come from Debian (librocksdb-dev, libsnappy-dev,
libgoogle-perftools-dev; `--install` installs them, as root) and PyPI (WiredTiger's source). Data lie in DIR/data and are
deleted after each engine. The stall phase runs in a memory control group where this user may make one, and says so where not.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = ("plimsoll", "rocksdb", "wiredtiger")
PACKAGES = ["g++", "cmake", "librocksdb-dev", "libsnappy-dev", "libgoogle-perftools-dev"]
WIREDTIGER = "11.3.1"
COMPILE = ["g++", "-std=c++17", "-O2", "-g", "-fno-omit-frame-pointer"]
MIB = 1 << 20


def call(command, **rest):
    print("+", " ".join(map(str, command)), file=sys.stderr)
    subprocess.run([str(word) for word in command], check=True, **rest)


# Building


def build_plimsoll(build):
    target = build / "plimsoll"
    call(["cargo", "build", "--release", "--manifest-path", HERE / "plimsoll/Cargo.toml"],
         env=os.environ | {"CARGO_TARGET_DIR": str(target)})
    return ["engine_plimsoll.cc", target / "release/libplimsoll_engine_peer.a", "-ldl", "-lm"]


def build_rocksdb(_build):
    return ["engine_rocksdb.cc", "-lrocksdb", "-ltcmalloc_minimal"]


def build_wiredtiger(build):
    source, made = build / f"wiredtiger-{WIREDTIGER}", build / "wiredtiger"
    if not source.exists():
        call([sys.executable, "-m", "pip", "download", "--no-binary", ":all:", "--no-deps", "-d", build, f"wiredtiger=={WIREDTIGER}"])
        with tarfile.open(build / f"wiredtiger-{WIREDTIGER}.tar.gz") as archive:
            archive.extractall(build, filter="data")
    if not (made / "libwiredtiger.a").exists():
        switches = ["ENABLE_STATIC=1", "ENABLE_SHARED=0", "ENABLE_PYTHON=0", "ENABLE_STRICT=0", "ENABLE_TCMALLOC=0", "HAVE_UNITTEST=0",
                    "HAVE_BUILTIN_EXTENSION_SNAPPY=1", "CMAKE_BUILD_TYPE=Release"]
        call(["cmake", "-S", source, "-B", made, *[f"-D{switch}" for switch in switches]], stdout=subprocess.DEVNULL)
        call(["cmake", "--build", made, "--target", "wiredtiger_static", "-j", os.cpu_count()], stdout=subprocess.DEVNULL)
    return ["engine_wiredtiger.cc", "-I", made / "include", made / "libwiredtiger.a", "-lsnappy", "-ltcmalloc_minimal", "-ldl"]


BUILDERS = {"plimsoll": build_plimsoll, "rocksdb": build_rocksdb, "wiredtiger": build_wiredtiger}


def build_engine(name, build):
    sources = BUILDERS[name](build)
    program = build / f"bench-{name}"
    call([*COMPILE, "main.cc", *sources, "-lpthread", "-o", program], cwd=HERE)
    return program


# Running


@contextlib.contextmanager
def memory_group(limit):
    """A memory control group (version 1 or 2) of `limit` bytes: yields the file that a process joins it by, or None."""
    for root, file, members in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "tasks"), ("/sys/fs/cgroup", "memory.max", "cgroup.procs")):
        group = pathlib.Path(root) / f"plimsoll-engines-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(str(limit))
        except OSError:
            group.rmdir()
            continue
        try:
            yield group / members
        finally:
            group.rmdir()
        return
    print("no memory control group can be made here: the operating system's cache helps in the stall phase", file=sys.stderr)
    yield None


def drop_cached(directory):
    """Writes back a database's files and takes them out of the operating system's cache."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(program, name, directory, options, group=None):
    words = [str(program), "--label", name, "--dir", str(directory)]
    words += [str(word) for pair in options.items() for word in pair]

    def join_group():
        if group:
            group.write_text(str(os.getpid()))

    process = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=join_group)
    results = []
    for line in process.stdout.splitlines():
        print(line, file=sys.stderr)
        if line.startswith("{"):
            results.append(json.loads(line))
        elif "index entries" in line and line.split("index entries ")[1].split()[0] != line.split("want ")[1].split(")")[0]:
            raise SystemExit(f"{name} lost index entries: {line}")
    return results


def measure(name, program, arguments):
    directory = arguments.work / "data" / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    common = {"--docs": arguments.documents, "--sync-ms": 100, "--ckpt-s": 60}
    try:
        results = run(program, name, directory, common | {"--cache": arguments.cache, "--phases": "load,update", "--verify": 1})
        if arguments.stall_seconds:
            drop_cached(directory)
            with memory_group(arguments.stall_memory * MIB) as group:
                options = common | {"--cache": arguments.stall_cache, "--phases": "stall", "--stall": arguments.stall_seconds, "--stall-rate": arguments.stall_rate}
                results += run(program, name, directory, options, group)
        return {result["phase"]: result for result in results if result["phase"] != "close"}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# Telling


def of_median(result, window):
    """A window's operations as a share of the median's; "-" when there was no such window."""
    return "-" if result[window] < 0 else f"{result[window] / max(result['win_p50'], 1):.2f}"


COLUMNS = [
    ("documents/s", lambda r: f"{r['ops_s']:,}"),
    ("CPU us/document", lambda r: f"{r['cpu_s_per_M']:.1f}"),
    ("p50 / p99.9 / max ms", lambda r: f"{r['lat_us']['p50'] / 1e3:.2f} / {r['lat_us']['p999'] / 1e3:.1f} / {r['lat_us']['max'] / 1e3:.0f}"),
    ("smallest 0.1 s window / median", lambda r: of_median(r, "win_min_steady")),
    ("the same, without a disk silence of 25 ms (windows with one, longest)",
     lambda r: of_median(r, "win_min_answered") + (f" ({r['win_unanswered']}, {r['disk_silence_ms']} ms)" if r["disk_silence_ms"] >= 0 else " (unknown)")),
    ("the same, and without a processor taken by the host (windows left)", lambda r: f"{of_median(r, 'win_min_undisturbed')} ({r['win_undisturbed']})"),
    ("the same, and without a window whose memory or processor took half as long again as usual (windows with it, slowest / usual)",
     lambda r: f"{of_median(r, 'win_min_full_speed')} ({r['win_slow_machine']}, {r['machine']['slowest']:.1f} x)"),
    ("windows in which the machine stood still for 25 ms, longest", lambda r: f"{r['win_stood_still']}, {r['standstill_ms']} ms" if r["standstill_ms"] >= 0 else "unknown"),
    ("windows without a commit", lambda r: str(r["win_zero"])),
    ("KB read + written/document", lambda r: f"{r['read_mb'] * 1e3 / r['ops']:.1f} + {r['write_mb'] * 1e3 / r['ops']:.1f}"),
    ("largest RSS MB", lambda r: f"{r['rss_mb']:.0f}"),
    ("MB on disk", lambda r: str(r["disk_mb"])),
    ("idle after s", lambda r: f"{r['settle_s']:.1f}"),
    ("processor s taken by the host", lambda r: f"{r['stolen_s']:.1f}"),
]


def median(values):
    return sorted(values)[len(values) // 2]


def table(phase, rounds):
    lines = [f"### {phase}", "", "| engine | " + " | ".join(title for title, _ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, results in rounds.items():
        for result in (one[phase] for one in results if phase in one):
            lines.append(f"| {name} | " + " | ".join(tell(result) for _, tell in COLUMNS) + " |")
    ours = [one[phase]["ops_s"] for one in rounds.get("plimsoll", []) if phase in one]
    for name in ("rocksdb", "wiredtiger"):
        theirs = [one[phase]["ops_s"] for one in rounds.get(name, []) if phase in one]
        if ours and theirs:
            lines += ["", f"Plimsoll: {median(ours) / max(median(theirs), 1):.2f} x the documents/s of {name}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="directory for what is built and for data: 20 GB of the disk to be measured")
    parser.add_argument("--engines", default=",".join(ENGINES), help="of %(default)s")
    parser.add_argument("--documents", type=int, default=1_000_000, help="in each of five collections (default %(default)s)")
    parser.add_argument("--cache", type=int, default=1024, help="MiB, of load and update (default %(default)s)")
    parser.add_argument("--stall-seconds", type=int, default=600, help="of uniformly random updates; 0 leaves them out (default %(default)s)")
    parser.add_argument("--stall-rate", type=int, default=0, help="random updates a second at most; 0: as many as go (default %(default)s)")
    parser.add_argument("--stall-cache", type=int, default=64, help="MiB (default %(default)s)")
    parser.add_argument("--stall-memory", type=int, default=256, help="MiB of the memory control group (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each engine runs, in turn (default %(default)s)")
    parser.add_argument("--install", action="store_true", help="install Debian's packages first")
    arguments = parser.parse_args()
    names = arguments.engines.split(",")
    unknown = set(names) - set(ENGINES)
    if unknown:
        parser.error(f"unknown engine {', '.join(sorted(unknown))}: choose of {', '.join(ENGINES)}")
    if arguments.install:
        call(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES])
    build = (arguments.work / "build").resolve()
    build.mkdir(parents=True, exist_ok=True)
    programs = {name: build_engine(name, build) for name in names}
    rounds = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            rounds[name].append(measure(name, programs[name], arguments))
            (arguments.work / "results.json").write_text(json.dumps(rounds, indent=1))
    for phase in ("load", "update", "stall"):
        if any(phase in one for results in rounds.values() for one in results):
            print(table(phase, rounds))


if __name__ == "__main__":
    main()
