// Whether a disk goes silent without any engine: reads and writes as many bytes a second as it is told, keeps all processors busy if it is told, and tells each silence.
//
//   g++ -std=c++17 -O2 benchmarks/engines/disk.cc -lpthread -o disk-silences
//   ./disk-silences DIRECTORY SECONDS ROUNDS busy|idle READS:MEGABYTES [READS:MEGABYTES ...]
//
// Each round is so many seconds of each load in turn: so many reads of 8 KiB and so many MB written a second, in pieces of 512 KiB, all anywhere in a file of 8 GiB and past the
// operating system's cache, beside a log that is synced ten times a second. In the random updates Plimsoll asks for 25,000 reads of 7 KB and 135 MB a second, RocksDB for 8,000 and 42 MB.
// `busy`: a thread of the lowest priority spins for each processor, as an engine at full speed leaves none of them idle.
#include "disk_silence.h"
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <random>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <vector>

static const long kFile = 8L << 30, kRead = 8 << 10, kWrite = 512 << 10, kAligned = 4096, kReaders = 8;
static std::atomic<bool> stop{false};

[[noreturn]] static void fail(const std::string &what) { perror(what.c_str()); exit(1); }
static int open_or_fail(const std::string &path, int flags) { int fd = open(path.c_str(), O_RDWR | O_CREAT | flags, 0600); if (fd < 0) fail(path); return fd; }

// Paces what is to be done so often a second; who is late makes up for 0.1 s of it at most.
struct Pace {
  double due = now();
  void wait(double a_second) { due = std::max(due + 1 / a_second, now() - 0.1); double early = due - now(); if (early > 0) usleep((useconds_t)(early * 1e6)); }
};
struct Buffer {
  char *at;
  explicit Buffer(long bytes) { void *p; if (posix_memalign(&p, kAligned, bytes)) fail("memory"); at = (char *)p; std::mt19937_64 random(bytes); for (long i = 0; i < bytes; i += 8) { uint64_t v = random(); memcpy(at + i, &v, 8); } }
  ~Buffer() { free(at); }
};
struct Load { double reads, megabytes; };
static std::atomic<double> reads_wanted{1}, writes_wanted{1};
static std::atomic<long> reads_done{0}, writes_done{0};

static void read_anywhere(int fd, int seed) {
  Buffer buffer(kRead); std::mt19937_64 random(seed); Pace pace;
  while (!stop) { pace.wait(reads_wanted / kReaders); if (pread(fd, buffer.at, kRead, (long)(random() % (kFile / kRead)) * kRead) != kRead) fail("read"); reads_done++; }
}
static void write_anywhere(int fd) {
  Buffer buffer(kWrite); std::mt19937_64 random(99); Pace pace;
  while (!stop) { pace.wait(writes_wanted); if (pwrite(fd, buffer.at, kWrite, (long)(random() % (kFile / kWrite)) * kWrite) != kWrite) fail("write"); writes_done++; }
}
static void sync_log(int fd) {
  Buffer buffer(100 << 10); long end = 0;
  while (!stop) { usleep(100000); if (pwrite(fd, buffer.at, 100 << 10, end % (64 << 20)) < 0 || fdatasync(fd)) fail("log"); end += 100 << 10; }
}
static void spin() { setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19); volatile uint64_t x = 0; while (!stop) x = x + 1; }

// Tells each silence, and each time that the machine stood still, of a load; returns how many silences there were.
static int watch(DiskSilence &disk, double seconds) {
  int silences = 0; double end = now() + seconds; long before = 0;
  while (now() < end) {
    usleep(20000); long ms = disk.take_ms(), late = disk.take_late_ms();
    // A silence that goes on is told once it is over, in full.
    if (before > 25 && ms < before) { silences++; time_t t = time(nullptr); char at[16]; strftime(at, sizeof at, "%H:%M:%S", localtime(&t)); printf("  %s silence of %ld ms\n", at, before); }
    if (late > 25) printf("  the machine stood still for %ld ms\n", late);
    fflush(stdout); before = ms;
  }
  return silences;
}

int main(int argc, char **argv) {
  if (argc < 6 || (strcmp(argv[4], "busy") && strcmp(argv[4], "idle"))) { fprintf(stderr, "usage: %s DIRECTORY SECONDS ROUNDS busy|idle READS:MEGABYTES [READS:MEGABYTES ...]\n", argv[0]); return 2; }
  std::string directory = argv[1]; double seconds = atof(argv[2]); int rounds = atoi(argv[3]); std::vector<Load> loads;
  for (int i = 5; i < argc; i++) { Load load; if (sscanf(argv[i], "%lf:%lf", &load.reads, &load.megabytes) != 2 || load.reads <= 0 || load.megabytes <= 0) { fprintf(stderr, "%s is not READS:MEGABYTES, both above 0\n", argv[i]); return 2; } loads.push_back(load); }
  std::string path = directory + "/disk-silences.data", log_path = directory + "/disk-silences.log";
  int fd = open_or_fail(path, O_DIRECT), log = open_or_fail(log_path, O_TRUNC);
  unlink(path.c_str()); unlink(log_path.c_str());  // so that they are gone however this ends
  { Buffer piece(1 << 20); for (long at = lseek(fd, 0, SEEK_END) >> 20 << 20; at < kFile; at += 1 << 20) if (pwrite(fd, piece.at, 1 << 20, at) != 1 << 20) fail("write"); }
  if (fsync(fd)) fail("sync");
  DiskSilence disk(directory);
  if (disk.take_ms() < 0) { fprintf(stderr, "the kernel keeps no counters of the disk of %s\n", argv[1]); return 1; }
  std::vector<std::thread> threads; std::vector<int> silences(loads.size()); std::vector<double> read_all(loads.size()), written_all(loads.size());
  reads_wanted = loads[0].reads; writes_wanted = loads[0].megabytes * 1e6 / kWrite;
  for (int i = 0; i < kReaders; i++) threads.emplace_back(read_anywhere, fd, i + 1);
  threads.emplace_back(write_anywhere, fd); threads.emplace_back(sync_log, log);
  if (!strcmp(argv[4], "busy")) for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++) threads.emplace_back(spin);
  for (int round = 0; round < rounds; round++) for (size_t i = 0; i < loads.size(); i++) {
    reads_wanted = loads[i].reads; writes_wanted = loads[i].megabytes * 1e6 / kWrite;
    long reads = reads_done, writes = writes_done; printf("%s\n", argv[5 + i]);
    silences[i] += watch(disk, seconds); read_all[i] += reads_done - reads; written_all[i] += writes_done - writes;
  }
  stop = true; for (auto &thread : threads) thread.join();
  for (size_t i = 0; i < loads.size(); i++)
    printf("%s: %.0f s, %.0f reads and %.0f MB written a second, %d silences of more than 25 ms\n", argv[5 + i], seconds * rounds, read_all[i] / seconds / rounds, written_all[i] * kWrite / 1e6 / seconds / rounds, silences[i]);
}
