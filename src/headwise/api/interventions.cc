// Edits and hooks in a run. Door: interventions.h.
#include "headwise/api/interventions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/activations.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Counts callbacks while they are on, also those that throw.
class CallbackMark {
 public:
  explicit CallbackMark(int& count) : count_(count) { ++count_; }
  ~CallbackMark() { --count_; }
  CallbackMark(const CallbackMark&) = delete;
  CallbackMark& operator=(const CallbackMark&) = delete;

 private:
  int& count_;
};

bool HasHook(std::string_view name) {
  return name != "logits" && !name.ends_with(".probs");
}

const AttentionLayer& LayerOf(const Model& model, const HeadRef& head) {
  const auto layers = AttentionLayers(model, head.kind);
  if (head.layer >= 0 && head.layer < std::ssize(layers)) {
    const AttentionLayer& layer = *layers[head.layer];
    if (head.head >= 0 && head.head < layer.config().heads) return layer;
  }
  throw Error(ErrorCode::kInvalidArgument,
              {"edit", "heads that the model has", ToString(head),
               "headwise info lists layers and heads"});
}

}  // namespace

uint64_t Interventions::Add(const Model& model, HeadEdit edit) {
  Edit added;
  added.means = edit.means;
  std::map<HeadRef, double> gates = edit.gates;
  for (const HeadRef& head : edit.drop) gates[head] = 0;
  for (const auto& [head, gate] : gates) {
    const AttentionLayer& layer = LayerOf(model, head);
    if (!std::isfinite(gate)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"gates", "a finite number for " + ToString(head),
           std::to_string(gate), "0 closes a head, 1 leaves it as it is"});
    }
    added.gates.Open(layer.site().name, layer.config().heads)[head.head] =
        static_cast<float>(gate);
  }
  for (auto& [name, site] : added.gates.sites) {
    if (edit.means == nullptr) break;
    const auto found = edit.means->find(name);
    const auto heads = std::ssize(site.heads);
    if (found == edit.means->end() || found->second.rank() != 3 ||
        found->second.shape(1) != heads) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"means",
           "this model's, with " + std::to_string(heads) + " heads of " + name,
           found == edit.means->end() ? "none of that layer"
                                      : ToString(found->second.view()),
           "MeanOutputs makes them"});
    }
    site.replacement = At(found->second.view(), 0, 0);
  }
  const std::lock_guard lock(mutex_);
  edits_[next_] = std::move(added);
  Combine();
  return next_++;
}

uint64_t Interventions::Add(const Model& model, std::string site,
                            HookCallback callback) {
  std::vector<std::string> names = ActivationNames(model);
  std::erase_if(names, [](const std::string& name) { return !HasHook(name); });
  if (std::ranges::none_of(names, [&](const std::string& name) {
        return MatchesPattern(site, name);
      })) {
    throw Error(ErrorCode::kNotFound,
                {"hook", "a place that this model has", site,
                 "did you mean " + Nearest(site, names) + "?"});
  }
  if (!callback) {
    throw Error(ErrorCode::kInvalidArgument,
                {"hook", "a function to call", "none",
                 "give the callback that is to see the activation"});
  }
  const std::lock_guard lock(mutex_);
  hooks_[next_] = {std::move(site), std::move(callback)};
  return next_++;
}

void Interventions::Remove(uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    removed_.push_back(number);
  }
  const OneCaller caller(thread_);
  if (caller.is_in() && callbacks_ == 0) DropRemoved();
}

void Interventions::DropRemoved() {
  // What callbacks own goes without the lock: it may take locks of its own.
  std::vector<decltype(hooks_)::node_type> hooks;
  const std::lock_guard lock(mutex_);
  bool edited = false;
  for (const uint64_t number : removed_) {
    hooks.push_back(hooks_.extract(number));
    edited = edits_.erase(number) > 0 || edited;
  }
  removed_.clear();
  if (edited) Combine();
}

bool Interventions::empty() const {
  const std::lock_guard lock(mutex_);
  return edits_.size() + hooks_.size() == removed_.size();
}

void Interventions::Combine() {
  combined_.sites.clear();
  for (const auto& [number, edit] : edits_) {
    for (const auto& [name, site] : edit.gates.sites) {
      std::vector<float>& all = combined_.Open(name, std::ssize(site.heads));
      for (size_t h = 0; h < all.size(); ++h) all[h] *= site.heads[h];
      if (site.replacement)
        combined_.sites[name].replacement = site.replacement;
    }
  }
}

bool Interventions::Hooked(std::string_view name) const {
  return std::ranges::any_of(hooks_, [&](const auto& entry) {
    return MatchesPattern(entry.second.pattern, name);
  });
}

bool Interventions::Wants(std::string_view activation) const {
  return HasHook(activation) && Hooked(activation);
}

void Interventions::Change(std::string_view activation, TensorView value) {
  if (!value.device.is_cpu()) context_.Synchronize();
  const CallbackMark mark(callbacks_);
  for (const auto& [number, hook] : hooks_) {
    if (MatchesPattern(hook.pattern, activation)) {
      hook.callback(activation, value);
    }
  }
}

void Interventions::BeforeAttention(const AttentionSite& site,
                                    const AttentionProblem& problem,
                                    AttentionArgs& args) {
  for (const char* kept : {".key", ".value"}) {
    if (!cached_ || hooks_.empty() || !Hooked(site.name + kept)) continue;
    throw Error(ErrorCode::kUnsupported,
                {site.name + kept, "a run of a whole text",
                 "one that keeps keys and values", "hook the query, or Run"});
  }
  combined_.BeforeAttention(site, problem, args);
}

}  // namespace headwise
