// Edits and hooks of a Transformer as the hooks of its runs.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/one_caller.h"
#include "headwise/context.h"
#include "headwise/head_edit.h"
#include "headwise/model.h"
#include "headwise/model/model.h"
#include "headwise/nn/gated_sites.h"

namespace headwise {

// For one calling thread at a time (thread()), but for Remove and empty, which
// any thread may call at any time.
class Interventions : public RunHooks {
 public:
  explicit Interventions(Context& context) : context_(context) {}

  // The thread that uses the model. Here, since an Intervention may outlive it.
  CallingThread& thread() { return thread_; }

  // Both return the number under which they are removed.
  uint64_t Add(const Model& model, HeadEdit edit);
  uint64_t Add(const Model& model, std::string site, HookCallback callback);
  // While a callback or another thread's call is on: before the next call.
  void Remove(uint64_t number);
  // What Remove left for this call.
  void DropRemoved();

  bool empty() const;
  bool has_hooks() const { return !hooks_.empty(); }
  // Of a run: null where there is nothing to do.
  RunHooks* hooks() { return empty() ? nullptr : this; }
  // Runs that keep keys and values, of which hooks would see the old ones
  // again and again.
  void set_cached(bool cached) { cached_ = cached; }

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  bool WantsSome() const override { return has_hooks(); }
  bool Wants(std::string_view activation) const override;
  void Change(std::string_view activation, TensorView value) override;

 private:
  struct Edit {
    GatedSites gates;
    HeadMeans means;  // kept
  };
  struct Hook {
    std::string pattern;
    HookCallback callback;
  };
  // All edits of each site as one: gates multiply, the last means count.
  void Combine();
  bool Hooked(std::string_view name) const;

  Context& context_;
  CallingThread thread_ = {};
  int callbacks_ = 0;  // that are on
  // Over what follows; the calling thread alone changes it, and reads it
  // without.
  mutable std::mutex mutex_;
  std::vector<uint64_t> removed_;  // and still in place
  uint64_t next_ = 0;
  std::map<uint64_t, Edit> edits_;
  std::map<uint64_t, Hook> hooks_;
  GatedSites combined_;
  bool cached_ = false;
};

// While it lives, runs keep keys and values.
class CachedRun {
 public:
  explicit CachedRun(Interventions& interventions) : of_(interventions) {
    of_.set_cached(true);
  }
  ~CachedRun() { of_.set_cached(false); }
  CachedRun(const CachedRun&) = delete;
  CachedRun& operator=(const CachedRun&) = delete;

 private:
  Interventions& of_;
};

}  // namespace headwise
