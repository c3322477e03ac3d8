// Edits and hooks of a Transformer as the hooks of its runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/context.h"
#include "headwise/model.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"

namespace headwise {

class Interventions : public RunHooks {
 public:
  explicit Interventions(Context& context) : context_(context) {}

  // Both return the number under which they are removed.
  uint64_t Add(const Model& model, HeadEdit edit);
  uint64_t Add(const Model& model, std::string site, HookCallback callback);
  void Remove(uint64_t number);

  bool empty() const { return edits_.empty() && hooks_.empty(); }
  bool has_hooks() const { return !hooks_.empty(); }
  // Of a run: null where there is nothing to do.
  RunHooks* hooks() { return empty() ? nullptr : this; }
  // Runs that keep keys and values, of which hooks would see the old ones
  // again and again.
  void set_cached(bool cached) { cached_ = cached; }

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  bool Wants(std::string_view activation) const override;
  void Take(std::string_view activation, ConstTensorView value) override;

 private:
  struct SiteEdit {
    std::vector<float> gates;       // one a head
    const Tensor* means = nullptr;  // [1, heads, E]
  };
  struct Edit {
    std::map<std::string, SiteEdit, std::less<>> sites;
    HeadMeans means;  // kept
  };
  struct Hook {
    std::string pattern;
    HookCallback callback;
  };
  // All edits of each site as one: gates multiply, the last means count.
  void Combine();
  void Call(std::string_view name, ConstTensorView value);
  bool Hooked(std::string_view name) const;

  Context& context_;
  uint64_t next_ = 0;
  std::map<uint64_t, Edit> edits_;
  std::map<uint64_t, Hook> hooks_;
  std::map<std::string, SiteEdit, std::less<>> combined_;
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
