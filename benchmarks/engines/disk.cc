// Whether a disk goes silent without any engine: reads and writes as many bytes a second as it is told, keeps all processors busy if it is told, and tells each silence.
//
//   g++ -std=c++17 -O2 benchmarks/engines/disk.cc -lpthread -o disk-silences
//   ./disk-silences DIRECTORY SECONDS ROUNDS busy|idle READS:MEGABYTES [READS:MEGABYTES ...]
//
// Each round is so many seconds of each load in turn: so many reads of 8 KiB and so many MB written a second, in pieces of 512 KiB, all anywhere in a file of 8 GiB and past the
// operating system's cache, beside a log that is synced ten times a second. In the random updates Plimsoll asks for 25,000 reads of 7 KB and 135 MB a second, RocksDB for 8,000 and 42 MB.
// `busy`: a thread of the lowest priority spins for each processor, as an engine at full speed leaves none of them idle.
#include "clock.h"
#include "disk_silence.h"
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <random>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <vector>

static const long kFile = 8L << 30, kPiece = 1 << 20, kLogged = 100 << 10, kLog = 64 << 20, kAligned = 4096;
static std::atomic<bool> stop{false};

[[noreturn]] static void fail(const char *what) { perror(what); exit(1); }
// A new file that is gone however this program ends.
static int open_nameless(const std::string &path, int flags) { int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | flags, 0600); if (fd < 0) fail(path.c_str()); unlink(path.c_str()); return fd; }

struct Buffer {
  char *at;
  explicit Buffer(long bytes) { void *p; if (posix_memalign(&p, kAligned, bytes)) fail("memory"); at = (char *)p; std::mt19937_64 random(bytes); for (long i = 0; i < bytes; i += 8) { uint64_t v = random(); memcpy(at + i, &v, 8); } }
  ~Buffer() { free(at); }
};
// Requests of one kind, by some threads together.
struct Requests { const char *kind; long bytes; int threads; std::atomic<double> a_second{1}; std::atomic<long> done{0}; };
static Requests reads{"read", 8 << 10, 8}, writes{"write", 512 << 10, 1};

// `ask` is pread or pwrite.
template <class Ask> static void ask_anywhere(Requests &of, Ask ask, int fd, int seed) {
  Buffer buffer(of.bytes); std::mt19937_64 random(seed); Pace pace(0.1);
  while (!stop) { pace.wait(of.a_second / of.threads); if (ask(fd, buffer.at, of.bytes, (long)(random() % (kFile / of.bytes)) * of.bytes) != of.bytes) fail(of.kind); of.done++; }
}
static void sync_log(int fd) {
  Buffer buffer(kLogged); long end = 0;
  while (!stop) { usleep(100000); if (pwrite(fd, buffer.at, kLogged, end % kLog) < 0 || fdatasync(fd)) fail("log"); end += kLogged; }
}
static void spin() { setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19); volatile uint64_t x = 0; while (!stop) x = x + 1; }

// Tells each silence, and each time that the machine stood still, of a load; returns how many silences there were.
static int watch(DiskSilence &disk, double seconds) {
  int silences = 0; double end = now() + seconds; long before = 0;
  while (now() < end) {
    usleep(20000); long ms = disk.take_ms(), late = disk.take_late_ms();
    // A silence that goes on is told once it is over, in full.
    if (before > DiskSilence::kToldMs && ms < before) { silences++; time_t t = time(nullptr); char at[16]; strftime(at, sizeof at, "%H:%M:%S", localtime(&t)); printf("  %s silence of %ld ms\n", at, before); }
    if (late > DiskSilence::kToldMs) printf("  the machine stood still for %ld ms\n", late);
    fflush(stdout); before = ms;
  }
  return silences;
}

// What the disk is asked for in turn, and what came of it in all rounds.
struct Load {
  const char *name; double reads_s, megabytes_s; int silences = 0; long read = 0, written = 0;
  void begin() const { reads.a_second = reads_s; writes.a_second = megabytes_s * 1e6 / writes.bytes; }
  void run(DiskSilence &disk, double seconds) {
    begin(); read -= reads.done; written -= writes.done; printf("%s\n", name);
    silences += watch(disk, seconds); read += reads.done; written += writes.done;
  }
  void tell(double seconds) const {
    printf("%s: %.0f s, %.0f reads and %.0f MB written a second, %d silences of more than %ld ms\n", name, seconds, read / seconds, written * writes.bytes / 1e6 / seconds, silences, DiskSilence::kToldMs);
  }
};

int main(int argc, char **argv) {
  if (argc < 6 || (strcmp(argv[4], "busy") && strcmp(argv[4], "idle"))) { fprintf(stderr, "usage: %s DIRECTORY SECONDS ROUNDS busy|idle READS:MEGABYTES [READS:MEGABYTES ...]\n", argv[0]); return 2; }
  std::string directory = argv[1]; double seconds = atof(argv[2]); int rounds = atoi(argv[3]); bool busy = !strcmp(argv[4], "busy"); std::vector<Load> loads;
  for (int i = 5; i < argc; i++) {
    Load load{argv[i], 0, 0};
    if (sscanf(argv[i], "%lf:%lf", &load.reads_s, &load.megabytes_s) != 2 || load.reads_s <= 0 || load.megabytes_s <= 0) { fprintf(stderr, "%s is not READS:MEGABYTES, both above 0\n", argv[i]); return 2; }
    loads.push_back(load);
  }
  int fd = open_nameless(directory + "/disk-silences.data", O_DIRECT), log = open_nameless(directory + "/disk-silences.log", 0);
  { Buffer piece(kPiece); for (long at = 0; at < kFile; at += kPiece) if (pwrite(fd, piece.at, kPiece, at) != kPiece) fail("write"); }
  if (fsync(fd)) fail("sync");
  DiskSilence disk(directory);
  if (disk.take_ms() < 0) { fprintf(stderr, "the kernel keeps no counters of the disk of %s\n", argv[1]); return 1; }
  loads[0].begin();  // before a thread sleeps at another pace
  std::vector<std::thread> threads;
  for (int i = 0; i < reads.threads; i++) threads.emplace_back([=] { ask_anywhere(reads, pread, fd, i + 1); });
  for (int i = 0; i < writes.threads; i++) threads.emplace_back([=] { ask_anywhere(writes, pwrite, fd, 99 + i); });
  threads.emplace_back(sync_log, log);
  if (busy) for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++) threads.emplace_back(spin);
  for (int round = 0; round < rounds; round++) for (Load &load : loads) load.run(disk, seconds);
  stop = true; for (auto &thread : threads) thread.join();
  for (const Load &load : loads) load.tell(seconds * rounds);
}
