// Times in which the disk of a directory answers nothing. Used by main.cc beside each engine, and by disk.cc without any.
#pragma once
#include "clock.h"
#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <thread>
#include <unistd.h>

// How long the disk answers nothing: requests are there and none is completed. A virtual machine's disk does that while its host is busy; an engine that
// asks too much of it may be the reason, too. Asks the kernel's counters of the disk every 5 ms from a thread of its own, which is not there without them.
// Also how long that thread was not run although its sleep was over: who sleeps most of the time is run within some milliseconds beside any engine, and after tens of them only if the
// whole machine stood still, by its host or its kernel. The disk seems to be silent then, too.
struct DiskSilence {
  static constexpr long kToldMs = 25;  // shorter silences and standstills are not told
  using Counters = std::array<unsigned long, 17>;  // as the kernel's block/stat.rst has them
  std::string path; std::thread asking; std::atomic<bool> stop{false}; std::atomic<long> longest_us{0}, now_us{0}, late_us{0}; Counters answered = {};
  explicit DiskSilence(const std::string &dir) {
    struct stat st; if (stat(dir.c_str(), &st)) return;
    path = "/sys/dev/block/" + std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev)) + "/stat";
    if (!read(&answered)) return;
    asking = std::thread([this] { watch(); });
  }
  ~DiskSilence() { stop = true; if (asking.joinable()) asking.join(); }
  bool read(Counters *v) {
    FILE *f = fopen(path.c_str(), "r"); if (!f) return false; *v = {}; size_t n = 0;
    while (n < v->size() && fscanf(f, "%lu", &(*v)[n]) == 1) n++;
    fclose(f); return n >= 11;
  }
  bool counters(unsigned long *done, bool *waiting) {  // reads, writes, discards and flushes completed (the latter two since Linux 4.18 and 5.5); requests in flight
    Counters v; if (!read(&v)) return false;
    *done = v[0] + v[4] + v[11] + v[15]; *waiting = v[8] > 0; return true;
  }
  void watch() {
    unsigned long before = 0, done; bool waited = false, waiting; double since = now(), asleep = since;
    while (!stop) {
      double at = now(); long late = (long)((at - asleep) * 1e6) - 5000;
      if (late > late_us) late_us = late;
      if (!counters(&done, &waiting)) return;
      if (!waited || !waiting || done != before) since = at;
      before = done; waited = waiting; now_us = (long)((at - since) * 1e6);
      if (now_us > longest_us) longest_us = now_us.load();
      asleep = now(); usleep(5000);
    }
  }
  // Requests answered since the last call, and how long one took in the mean, in the disk's queue and in the disk.
  struct Answers { unsigned long reads, writes; double read_us, write_us; };
  Answers take_answers() {
    Counters v; if (!asking.joinable() || !read(&v)) return {};
    Answers of{v[0] - answered[0], v[4] - answered[4], 0, 0};
    if (of.reads) of.read_us = (v[3] - answered[3]) * 1e3 / of.reads;
    if (of.writes) of.write_us = (v[7] - answered[7]) * 1e3 / of.writes;
    answered = v; return of;
  }
  // Milliseconds of the longest standstill that ended since the last call; -1: unknown.
  long take_late_ms() { return asking.joinable() ? late_us.exchange(0) / 1000 : -1; }
  // Milliseconds of the longest silence that lasted into the time since the last call, with what it lasted before; -1: unknown.
  long take_ms() { return asking.joinable() ? longest_us.exchange(now_us) / 1000 : -1; }
};
