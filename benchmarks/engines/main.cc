#include "bench.h"
#include "clock.h"
#include "disk_silence.h"
#include <algorithm>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <memory>
#include <mutex>

struct Hist {  // log-linear, 32 sub-buckets per octave of microseconds/16
  std::vector<uint64_t> c = std::vector<uint64_t>(64 * 32, 0); uint64_t max = 0, n = 0;
  void add(uint64_t ns) {
    uint64_t v = ns >> 6; if (ns > max) max = ns; n++;
    int o = v < 32 ? 0 : 63 - __builtin_clzll(v) - 4; int s = v < 32 ? v : (v >> (o - 1)) - 32 + 0;
    size_t k = v < 32 ? v : o * 32 + s; if (k >= c.size()) k = c.size() - 1; c[k]++;
  }
  void merge(const Hist &h) { for (size_t i = 0; i < c.size(); i++) c[i] += h.c[i]; n += h.n; max = std::max(max, h.max); }
  double q(double f) const {  // in microseconds
    if (!n) return 0; uint64_t want = (uint64_t)(f * n), seen = 0;
    for (size_t k = 0; k < c.size(); k++) { seen += c[k]; if (seen > want) {
      uint64_t v = k < 32 ? k : (uint64_t)(32 + k % 32) << (k / 32 - 1); return (v << 6) / 1000.0; } }
    return max / 1000.0;
  }
};
struct alignas(64) Slot { std::atomic<uint64_t> ops{0}; Hist h; uint64_t retries = 0; };

static long io_field(const char *name) {
  FILE *f = fopen("/proc/self/io", "r"); char k[64]; long v, out = 0;
  if (!f) return 0;
  while (fscanf(f, "%63s %ld", k, &v) == 2) if (!strcmp(k, name)) out = v;
  fclose(f); return out;
}
static long vmhwm_kb() {
  FILE *f = fopen("/proc/self/status", "r"); char l[256]; long v = 0;
  while (fgets(l, sizeof l, f)) if (!strncmp(l, "VmHWM:", 6)) v = atol(l + 6);
  fclose(f); return v;
}
static double cpu_s(double *sys) {
  rusage r; getrusage(RUSAGE_SELF, &r); *sys = r.ru_stime.tv_sec + r.ru_stime.tv_usec / 1e6;
  return r.ru_utime.tv_sec + r.ru_utime.tv_usec / 1e6 + *sys;
}
// Seconds of processor time, over all processors, that the host of a virtual machine gave to somebody else since it started.
static double stolen_s() {
  FILE *f = fopen("/proc/stat", "r"); if (!f) return 0; unsigned long v[8] = {};
  int n = fscanf(f, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7); fclose(f);
  return n == 8 ? v[7] / (double)sysconf(_SC_CLK_TCK) : 0;
}
// How fast the machine is. Its memory: how long the same few reads take, each of an address that the one before it gives, all over more than a processor's own caches hold. Its processors: how long
// the same few multiplications take, four at a time. Of the time that this thread has a processor, so that it is not what our own threads take from it. What runs beside us on the other halves of the
// cores of a virtual machine's host slows down both, and the kernel counts that nowhere. Ten times in each window, 0.1 ms and 0.03 ms each.
struct MachineSpeed {
  struct Times { double memory_us, processor_us; };
  std::vector<char> memory = std::vector<char>(8 << 20, 1); Times sum{0, 0}; size_t times = 0; std::mutex lock; std::atomic<bool> stop{false}; std::thread asking;
  MachineSpeed() { asking = std::thread([this] { watch(); }); }
  ~MachineSpeed() { stop = true; asking.join(); }
  static double had_processor() { timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
  void watch() {
    uint64_t x = 88172645463325252, read = 0; volatile uint64_t seen;
    while (!stop) {
      usleep(10000); double began = had_processor();
      for (int i = 0; i < 300; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; x += read; read = (unsigned char)memory[(x >> 11) % memory.size()]; }
      double read_all = had_processor(); uint64_t a = x, b = x + 1, c = x + 2, d = x + 3;
      for (int i = 0; i < 30000; i++) { a = a * 6364136223846793005u + 1; b = b * 6364136223846793005u + 1; c = c * 6364136223846793005u + 1; d = d * 6364136223846793005u + 1; }
      seen = x ^ a ^ b ^ c ^ d; (void)seen;  // or the compiler leaves both out
      double ended = had_processor(); std::lock_guard<std::mutex> guard(lock); sum.memory_us += (read_all - began) * 1e6; sum.processor_us += (ended - read_all) * 1e6; times++;
    }
  }
  // Means since the last call, because a machine may be slow for a part of a window only; 0: it was not asked.
  Times take() {
    std::lock_guard<std::mutex> guard(lock); double n = times ? times : 1; Times of{sum.memory_us / n, sum.processor_us / n};
    sum = {0, 0}; times = 0; return of;
  }
};
// Of a sorted list; 0: it is empty.
template <class T> static T quantile(const std::vector<T> &sorted, double q) { return sorted.empty() ? T() : sorted[std::min(sorted.size() - 1, (size_t)(q * sorted.size()))]; }
static long du_bytes(const std::string &d) {
  std::string cmd = "du -sk '" + d + "' | cut -f1"; FILE *p = popen(cmd.c_str(), "r"); long k = 0;
  if (fscanf(p, "%ld", &k) != 1) k = 0; pclose(p); return k * 1024;
}

struct Phase {
  const Cfg &c; const char *name; std::vector<Slot> &s; double t0, cpu0, sys0; long wr0, wc0, rd0, rc0; std::thread samp;
  std::atomic<bool> stop{false}; std::vector<uint64_t> win; std::vector<double> eff, cpuw, sysw, stolen, at; std::vector<MachineSpeed::Times> speeds; std::vector<long> silent, late; std::vector<DiskSilence::Answers> answers; DiskSilence disk; MachineSpeed speed; uint64_t unit;
  Phase(const Cfg &c, const char *n, std::vector<Slot> &s, uint64_t unit) : c(c), name(n), s(s), disk(c.dir), unit(unit) {
    for (auto &x : s) { x.ops = 0; x.h = Hist(); x.retries = 0; }
    cpu0 = cpu_s(&sys0); wr0 = io_field("write_bytes:"); wc0 = io_field("wchar:"); rd0 = io_field("read_bytes:"); rc0 = io_field("rchar:"); t0 = now();
    samp = std::thread([this] {
      uint64_t last = 0; double next = t0, sy, lc = cpu0, lsy = sys0, ls = stolen_s();
      while (!stop) { next += 0.1; double w = next - now(); if (w > 0) usleep((useconds_t)(w * 1e6));
        uint64_t v = 0; for (auto &x : this->s) v += x.ops.load(std::memory_order_relaxed); win.push_back(v - last); double cn = cpu_s(&sy); cpuw.push_back(cn - lc); sysw.push_back(sy - lsy); lsy = sy;
        double st = stolen_s(); stolen.push_back(st - ls); ls = st; at.push_back(now()); silent.push_back(disk.take_ms()); late.push_back(disk.take_late_ms()); answers.push_back(disk.take_answers()); speeds.push_back(speed.take());
        if (cn - lc >= 0.01) eff.push_back((v - last) / (cn - lc)); lc = cn; last = v; }
    });
  }
  // Seconds until the engine's own threads use less than a tenth of one processor, during a second; 60: they did not stop.
  double wait_until_idle() {
    double begin = now(), sys, before = cpu_s(&sys);
    for (int i = 0; i < 60; i++) { usleep(1000000); double after = cpu_s(&sys); if (after - before < 0.1) return now() - begin - 1; before = after; }
    return now() - begin;
  }
  void end(const std::string &extra) {
    double t1 = now(), sys1, cpu1 = cpu_s(&sys1); stop = true; samp.join();
    double write_mb = (io_field("write_bytes:") - wr0) / 1e6, wchar_mb = (io_field("wchar:") - wc0) / 1e6;
    double read_mb = (io_field("read_bytes:") - rd0) / 1e6, rchar_mb = (io_field("rchar:") - rc0) / 1e6;
    double settle = wait_until_idle();
    long disk_mb = du_bytes(c.dir) / 1000000;
    uint64_t ops = 0, rt = 0; Hist h; for (auto &x : s) { ops += x.ops; rt += x.retries; h.merge(x.h); }
    if (win.size() > 1) win.pop_back();
    std::string wf = c.dir + "." + name + ".win"; FILE *f = fopen(wf.c_str(), "w");
    for (size_t i = 0; i < win.size(); i++) {
      fprintf(f, "%lu %.3f %.2f %.3f %.3f %ld %ld %.0f ", (unsigned long)win[i], cpuw[i], stolen[i], at[i], sysw[i], silent[i], late[i], speeds[i].memory_us);
      fprintf(f, "%lu %.0f %lu %.0f %.1f\n", answers[i].reads, answers[i].read_us, answers[i].writes, answers[i].write_us, speeds[i].processor_us);
    }
    fclose(f);
    std::sort(eff.begin(), eff.end());  // operations per CPU second of each window: does not move with the neighbours' load
    auto eq = [&](double q) { return quantile(eff, q); };
    std::vector<uint64_t> w = win; std::sort(w.begin(), w.end());
    auto wq = [&](double q) { return (unsigned long)quantile(w, q); };
    size_t zero = 0, run = 0, maxrun = 0; double med = wq(0.5);
    size_t warm = std::min<size_t>(20, win.size() / 4);  // windows of warming up: two seconds, a quarter of a short run
    uint64_t steady = win.size() > warm ? *std::min_element(win.begin() + warm, win.end()) : 0;
    // The smallest of the windows without a disk silence of more than 25 ms, and of those of them in which the machine did not
    // stand still for so long, and in which, and before which, the host took no processor time; and of all these, but for those in which
    // the machine was slow; -1: there was none. Slow: the reads or the multiplications took half as long again as in the median of the windows.
    long answered = -1, undisturbed = -1, full_speed = -1, silence = -1, standstill = -1; size_t unanswered = 0, stood = 0, left = 0, slow = 0; double taken = 0;
    auto usual = [&](double MachineSpeed::Times::*us) { std::vector<double> all; for (size_t i = 0; i < win.size(); i++) all.push_back(speeds[i].*us); std::sort(all.begin(), all.end()); return quantile(all, 0.5); };
    double usual_memory_us = usual(&MachineSpeed::Times::memory_us), usual_processor_us = usual(&MachineSpeed::Times::processor_us), slowest = 0;
    auto lower = [](long &least, uint64_t value) { if (least < 0 || (long)value < least) least = value; };
    for (size_t i = 0; i < stolen.size(); i++) taken += stolen[i];
    for (size_t i = warm; i < win.size(); i++) {
      silence = std::max(silence, silent[i]); standstill = std::max(standstill, late[i]);
      if (late[i] > DiskSilence::kToldMs) stood++;
      double times_usual = std::max(speeds[i].memory_us / std::max(usual_memory_us, 1.0), speeds[i].processor_us / std::max(usual_processor_us, 1.0));
      bool is_slow = times_usual > 1.5; slow += is_slow; slowest = std::max(slowest, times_usual);
      if (silent[i] > DiskSilence::kToldMs) { unanswered++; continue; }
      lower(answered, win[i]);
      if (i > 0 && stolen[i] == 0 && stolen[i - 1] == 0 && late[i] <= DiskSilence::kToldMs) { lower(undisturbed, win[i]); left++; if (!is_slow) lower(full_speed, win[i]); }
    }
    for (auto v : win) { if (v == 0) zero++; if (v < med * 0.1) { run++; maxrun = std::max(maxrun, run); } else run = 0; }
    double s0 = t1 - t0;
    printf("{\"label\":\"%s\",\"phase\":\"%s\",\"cache_mb\":%d,\"docs\":%ld,\"ops\":%lu,\"secs\":%.2f,\"ops_s\":%.0f,\"cpu_s\":%.1f,\"sys_s\":%.1f,"
           "\"cpu_s_per_M\":%.1f,\"write_mb\":%.1f,\"wchar_mb\":%.1f,\"read_mb\":%.1f,\"rchar_mb\":%.1f,\"rss_mb\":%.0f,\"retries\":%lu,"
           "\"win_min\":%lu,\"win_min_steady\":%lu,\"win_min_answered\":%ld,\"win_unanswered\":%zu,\"disk_silence_ms\":%ld,\"standstill_ms\":%ld,\"win_stood_still\":%zu,\"win_min_undisturbed\":%ld,\"win_undisturbed\":%zu,\"win_min_full_speed\":%ld,\"win_slow_machine\":%zu,\"machine\":{\"memory_us\":%.0f,\"processor_us\":%.1f,\"slowest\":%.2f},\"stolen_s\":%.2f,\"settle_s\":%.1f,\"win_p1\":%lu,\"win_p10\":%lu,\"win_p50\":%lu,\"win_p99\":%lu,\"win_n\":%zu,\"win_zero\":%zu,\"longest_below_10pct_s\":%.1f,\"per_cpu_s\":{\"p1\":%.0f,\"p10\":%.0f,\"p50\":%.0f,\"p90\":%.0f},"
           "\"lat_us\":{\"p50\":%.0f,\"p99\":%.0f,\"p999\":%.0f,\"max\":%.0f},\"disk_mb\":%ld%s}\n",
           c.label.c_str(), name, c.cache_mb, c.docs, (unsigned long)ops, s0, ops / s0, cpu1 - cpu0, sys1 - sys0, (cpu1 - cpu0) * 1e6 / (ops ? ops : 1),
           write_mb, wchar_mb, read_mb, rchar_mb,
           vmhwm_kb() / 1024.0, (unsigned long)rt, (unsigned long)(w.empty() ? 0 : w.front()), (unsigned long)steady, answered, unanswered, silence, standstill, stood, undisturbed, left, full_speed, slow, usual_memory_us, usual_processor_us, slowest, taken, settle, wq(0.01), wq(0.10), wq(0.5), wq(0.99), w.size(), zero, maxrun * 0.1, eq(.01), eq(.10), eq(.5), eq(.9),
           h.q(.5), h.q(.99), h.q(.999), h.max / 1000.0, disk_mb, extra.c_str());
    fflush(stdout);
  }
};

int main(int argc, char **argv) {
  Cfg c; c.label = argv[0];
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string k = argv[i], v = argv[i + 1];
    if (k == "--dir") c.dir = v; else if (k == "--phases") c.phases = v; else if (k == "--colls") c.colls = stoi(v);
    else if (k == "--idx") c.idx = stoi(v); else if (k == "--threads") c.threads = stoi(v); else if (k == "--batch") c.batch = stoi(v);
    else if (k == "--passes") c.passes = stoi(v); else if (k == "--docs") c.docs = stol(v); else if (k == "--cache") c.cache_mb = stoi(v);
    else if (k == "--stall") c.stall_s = stoi(v); else if (k == "--stall-rate") c.stall_rate = stoi(v); else if (k == "--sync-ms") c.sync_ms = stoi(v); else if (k == "--ckpt-s") c.ckpt_s = stoi(v);
    else if (k == "--variant") c.variant = v; else if (k == "--label") c.label = v; else if (k == "--verify") c.verify = stoi(v);
    else if (k == "--pass0") c.pass0 = stoi(v);
    else { fprintf(stderr, "unknown option %s\n", k.c_str()); return 1; }
  }
  auto has = [&](const char *p) { return ("," + c.phases + ",").find(std::string(",") + p + ",") != std::string::npos; };
  bool create = has("load");
  if (create && system(("rm -rf '" + c.dir + "' && mkdir -p '" + c.dir + "'").c_str())) return 1;
  std::unique_ptr<Engine> e(make_engine()); e->open(c, create);
  std::atomic<bool> bgstop{false};
  std::thread logt([&] { while (!bgstop) { usleep(c.sync_ms * 1000); if (!bgstop) e->sync_log(); } });
  std::thread ckt([&] { double next = now() + c.ckpt_s; while (!bgstop) { usleep(50000); if (now() >= next) { e->checkpoint(); next = now() + c.ckpt_s; } } });
  std::vector<Slot> slots(c.threads);
  std::vector<std::unique_ptr<Worker>> ws; for (int t = 0; t < c.threads; t++) ws.emplace_back(e->worker(t));
  auto par = [&](const std::function<void(int)> &fn) { std::vector<std::thread> ts; for (int t = 0; t < c.threads; t++) ts.emplace_back(fn, t); for (auto &t : ts) t.join(); };
  auto run_rmw = [&](int t, int coll, uint64_t rid) {
    auto a = Clock::now(); while (!ws[t]->rmw(coll, rid)) slots[t].retries++;
    slots[t].h.add(std::chrono::nanoseconds(Clock::now() - a).count()); slots[t].ops.fetch_add(1, std::memory_order_relaxed);
  };
  if (has("load")) {
    Phase p(c, "load", slots, 1);
    par([&](int t) { for (int k = t; k < c.colls; k += c.threads) for (long i = 0; i < c.docs; i += c.batch) {
      int n = std::min<long>(c.batch, c.docs - i); auto a = Clock::now();
      while (!ws[t]->load_batch(k, i, n)) slots[t].retries++;
      slots[t].h.add(std::chrono::nanoseconds(Clock::now() - a).count()); slots[t].ops += n; } });
    p.end(e->stats());
  }
  if (has("update")) {
    Phase p(c, "update", slots, 1);
    par([&](int t) { for (int k = t; k < c.colls; k += c.threads) for (int i = 0; i < c.passes; i++)
      ws[t]->scan(k, c.mod, c.pass0 + i, [&](uint64_t rid) { run_rmw(t, k, rid); }); });
    p.end(e->stats());
  }
  if (has("stall")) {
    Phase p(c, "stall", slots, 1); double end = now() + c.stall_s;
    par([&](int t) { uint64_t r = 88172645463325252ull * (t + 1) + getpid();
      auto rnd = [&] { r ^= r << 13; r ^= r >> 7; r ^= r << 17; return r; };
      Pace pace(1);
      while (now() < end) {
        if (c.stall_rate) pace.wait((double)c.stall_rate / c.threads);
        uint64_t v = rnd(); run_rmw(t, (v >> 40) % c.colls, rnd() % c.docs + 1); } });
    p.end(e->stats());
  }
  if (c.verify) for (int k = 0; k < c.colls; k++) { uint64_t n, s; ws[0]->verify(k, n, s);
    printf("verify %s coll %d: index entries %lu (want %ld), sum a %lu\n", c.label.c_str(), k, (unsigned long)n, c.docs, (unsigned long)s); fflush(stdout); }
  bgstop = true; logt.join(); ckt.join(); ws.clear();
  double t = now(), s0, c0 = cpu_s(&s0), s1; e->close();
  printf("{\"label\":\"%s\",\"phase\":\"close\",\"secs\":%.2f,\"cpu_s\":%.1f,\"disk_mb\":%ld}\n", c.label.c_str(), now() - t, cpu_s(&s1) - c0, du_bytes(c.dir) / 1000000);
}
