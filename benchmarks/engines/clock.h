// The clock of main.cc, disk.cc and disk_silence.h, and the pace that holds what the first two do to so many a second.
#pragma once
#include <algorithm>
#include <chrono>
#include <unistd.h>
using Clock = std::chrono::steady_clock;
static double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Paces what one thread is to do so often a second; who is late makes up for so many seconds of it at most.
struct Pace {
  double makes_up_s, due = now();
  explicit Pace(double makes_up_s) : makes_up_s(makes_up_s) {}
  void wait(double a_second) { due = std::max(due + 1 / a_second, now() - makes_up_s); double early = due - now(); if (early > 0) usleep((useconds_t)(early * 1e6)); }
};
