// Edits and hooks in a run. Door: interventions.h.
#include "headwise/api/interventions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/activations.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// What a hook must see before the attention reads it, by its place in args.
constexpr std::array kBefore = {".query", ".key", ".value"};

bool IsBefore(std::string_view name) {
  return std::ranges::any_of(
      kBefore, [&](const char* end) { return name.ends_with(end); });
}

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
              {"edit", "heads that the model has", ToString(head), ""});
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
          {"gates", "a finite number for " + ToString(head), "none", ""});
    }
    SiteEdit& site = added.sites[layer.site().name];
    site.gates.resize(layer.config().heads, 1.0f);
    site.gates[head.head] = static_cast<float>(gate);
  }
  for (auto& [name, site] : added.sites) {
    if (edit.means == nullptr) break;
    const auto found = edit.means->find(name);
    const auto heads = std::ssize(site.gates);
    if (found == edit.means->end() || found->second.rank() != 3 ||
        found->second.shape(1) != heads) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"means",
           "this model's, with " + std::to_string(heads) + " heads of " + name,
           "other ones", "MeanOutputs makes them"});
    }
    site.means = &found->second;
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
                {"hook", "a function to call", "none", ""});
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
  combined_.clear();
  for (const auto& [number, edit] : edits_) {
    for (const auto& [name, site] : edit.sites) {
      SiteEdit& all = combined_[name];
      all.gates.resize(site.gates.size(), 1.0f);
      for (size_t h = 0; h < site.gates.size(); ++h) {
        all.gates[h] *= site.gates[h];
      }
      if (site.means != nullptr) all.means = site.means;
    }
  }
}

bool Interventions::Hooked(std::string_view name) const {
  return std::ranges::any_of(hooks_, [&](const auto& entry) {
    return MatchesPattern(entry.second.pattern, name);
  });
}

bool Interventions::Wants(std::string_view activation) const {
  return !IsBefore(activation) && HasHook(activation) && Hooked(activation);
}

void Interventions::Take(std::string_view activation, ConstTensorView value) {
  Call(activation, value);
}

void Interventions::Call(std::string_view name, ConstTensorView value) {
  // What a run shows is its own scratch, which it goes on with.
  TensorView x;
  x.data = const_cast<void*>(value.data);
  x.type = value.type;
  x.device = value.device;
  x.rank = value.rank;
  x.shape = value.shape;
  x.stride = value.stride;
  if (x.rank == 4 && x.shape[0] == 1) x = At(x, 0, 0);
  if (!x.device.is_cpu()) context_.Synchronize();
  const CallbackMark mark(callbacks_);
  for (const auto& [number, hook] : hooks_) {
    if (MatchesPattern(hook.pattern, name)) hook.callback(name, x);
  }
}

void Interventions::BeforeAttention(const AttentionSite& site,
                                    const AttentionProblem& problem,
                                    AttentionArgs& args) {
  for (size_t i = 0; i < kBefore.size() && !hooks_.empty(); ++i) {
    const std::string name = site.name + kBefore[i];
    if (!Hooked(name)) continue;
    if (cached_ && i > 0) {
      throw Error(ErrorCode::kUnsupported,
                  {name, "a run of a whole text",
                   "one that keeps keys and values", "hook the query, or Run"});
    }
    Call(name, i == 0 ? args.q : i == 1 ? args.k : args.v);
  }
  const auto found = combined_.find(site.name);
  if (found == combined_.end()) return;
  const SiteEdit& edit = found->second;
  const int64_t batch = args.q.shape[0], rows = args.q.shape[1];
  args.gates = View(edit.gates.data(), {batch, rows, problem.heads});
  args.gates.stride[0] = args.gates.stride[1] = 0;
  if (edit.means == nullptr) return;
  args.replacement = View(edit.means->As<float>(),
                          {batch, rows, problem.heads, args.v.shape[3]});
  args.replacement.stride[0] = args.replacement.stride[1] = 0;
}

}  // namespace headwise
