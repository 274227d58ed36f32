// Plimsoll's storage: records with index keys derived from them, the oplog, record locks (see plimsoll/src/lib.rs).
#include "bench.h"
extern "C" {
struct PlimsollSettings { const char *directory; size_t cache_bytes; uint32_t collections, indexes, sync_ms, checkpoint_s; };
struct Peer; struct PeerWorker;
Peer *plimsoll_open(const PlimsollSettings *);
PeerWorker *plimsoll_worker(const Peer *);
void plimsoll_insert(PeerWorker *, uint32_t, const uint8_t *, size_t);
void plimsoll_increment(PeerWorker *, uint32_t, uint64_t);
void plimsoll_scan(PeerWorker *, uint32_t, uint64_t, uint64_t, void (*)(void *, PeerWorker *, uint64_t), void *);
void plimsoll_verify(PeerWorker *, uint32_t, uint64_t *, uint64_t *);
void plimsoll_counters(const Peer *, char *, size_t);
void plimsoll_worker_close(PeerWorker *);
void plimsoll_close(Peer *);
}

struct PWorker : Worker {
  PeerWorker *w, *inner = nullptr;
  PWorker(const Peer *p) : w(plimsoll_worker(p)) {}
  ~PWorker() { plimsoll_worker_close(w); }
  bool load_batch(int k, uint64_t first, int n) override {  // each document is a commit of its own
    for (int j = 0; j < n; j++) { Rec r; make_rec(r, first + j, 0); plimsoll_insert(w, k, r.b, r.n); }
    return true;
  }
  bool rmw(int k, uint64_t rid) override { plimsoll_increment(inner ? inner : w, k, rid - 1); return true; }
  void scan(int k, int mod, int rem, const std::function<void(uint64_t)> &hit) override {
    struct Context { PWorker *self; const std::function<void(uint64_t)> *hit; } context{this, &hit};
    plimsoll_scan(w, k, mod, rem, [](void *c, PeerWorker *inner, uint64_t document) {
      auto x = (Context *)c; x->self->inner = inner; (*x->hit)(document + 1); x->self->inner = nullptr; }, &context);
  }
  void verify(int k, uint64_t &n, uint64_t &sum) override { plimsoll_verify(w, k, &n, &sum); }
};
struct PEngine : Engine {
  Peer *peer;
  void open(const Cfg &c, bool) override {
    PlimsollSettings s{c.dir.c_str(), (size_t)c.cache_mb << 20, (uint32_t)c.colls, (uint32_t)c.idx, (uint32_t)c.sync_ms, (uint32_t)c.ckpt_s};
    peer = plimsoll_open(&s);
  }
  Worker *worker(int) override { return new PWorker(peer); }
  std::string stats() override { char text[1024]; plimsoll_counters(peer, text, sizeof text); return text; }
  void close() override { plimsoll_close(peer); }  // the oplog is synced and checkpoints are made by its own threads, at the same intervals
};
Engine *make_engine() { return new PEngine; }
