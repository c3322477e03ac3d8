// Where a caller reaches into a running model: it may set gates, replacements
// and observations of every attention call, read what the call left, and take
// or change named activations. Weights are never edited. A run has a list of
// hooks and calls them in its order.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "headwise/attention.h"
#include "headwise/head_ref.h"
#include "headwise/tensor.h"

namespace headwise {

struct AttentionSite {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;
  // Prefix of this site's activations: "layer.3.attention",
  // "decoder.layer.3.cross".
  std::string name;
};

// Every method does nothing until overridden. Calls come from the thread that
// runs the model, in order of execution.
class RunHooks {
 public:
  virtual ~RunHooks() = default;

  // args as they will be run: gates, replacement, active_heads and observation
  // are the caller's to set; what they point to must live until AfterAttention.
  // Gates and a replacement that lie on the host are copied to the device. Of
  // several hooks the last one's gates count; only one may observe.
  virtual void BeforeAttention(const AttentionSite& site,
                               const AttentionProblem& problem,
                               AttentionArgs& args) {}
  // args as they were run, with lse and without the observation, so that
  // second passes can follow.
  virtual void AfterAttention(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args) {}
  // Once the layer's output was asked for: the memory that those args point to,
  // beyond the run's input and a cache, for hooks that look into the call
  // later. It lives as long as they keep this. Not where a backward follows.
  virtual void KeepCall(std::shared_ptr<const void> memory) {}
  // Whether KeepCall does anything: to ask takes memory.
  virtual bool KeepsCalls() const { return true; }

  // The same around the backward of an attention call: dgates, dentropy and
  // received are the caller's to set. args as they were run forward; what
  // gates and replacement point to must still live.
  virtual void BeforeAttentionBackward(const AttentionSite& site,
                                       const AttentionProblem& problem,
                                       const AttentionArgs& args,
                                       AttentionGrads& grads) {}
  virtual void AfterAttentionBackward(const AttentionSite& site,
                                      const AttentionProblem& problem,
                                      const AttentionArgs& args,
                                      const AttentionGrads& grads) {}

  // Whether Wants is to be asked at all, which takes a name.
  virtual bool WantsSome() const { return true; }
  virtual bool Wants(std::string_view activation) const { return false; }
  // The view is valid during the call.
  virtual void Take(std::string_view activation, ConstTensorView value) {}
  // The same of an activation that the run goes on with as it is left here:
  // all but what routers of experts choose.
  virtual void Change(std::string_view activation, TensorView value) {
    Take(activation, value);
  }
};

// Gives a function the activations whose names another one accepts.
class ActivationTaker : public RunHooks {
 public:
  using WantsName = std::function<bool(std::string_view)>;
  using TakeValue = std::function<void(std::string_view, ConstTensorView)>;
  ActivationTaker(WantsName wants, TakeValue take)
      : wants_(std::move(wants)), take_(std::move(take)) {}

  bool KeepsCalls() const override { return false; }
  bool Wants(std::string_view activation) const override {
    return wants_(activation);
  }
  void Take(std::string_view activation, ConstTensorView value) override {
    take_(activation, value);
  }

 private:
  WantsName wants_;
  TakeValue take_;
};

// The hooks of a run, none of them null; borrowed.
class HookList {
 public:
  HookList() = default;
  // Null pointers are left out. Throws Error(kInvalidArgument) for more than
  // kMost.
  HookList(RunHooks* hooks) { Add(hooks); }  // NOLINT: stands for a list
  HookList(std::initializer_list<RunHooks*> hooks) {
    for (RunHooks* one : hooks) Add(one);
  }
  void Add(RunHooks* hooks);

  bool empty() const { return count_ == 0; }

  // As those of RunHooks, for each hook in turn.
  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) const;
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) const;
  bool KeepsCalls() const;
  void KeepCall(const std::shared_ptr<const void>& memory) const;
  void BeforeAttentionBackward(const AttentionSite& site,
                               const AttentionProblem& problem,
                               const AttentionArgs& args,
                               AttentionGrads& grads) const;
  void AfterAttentionBackward(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args,
                              const AttentionGrads& grads) const;
  // Whether one of them does.
  bool WantsSome() const;
  bool Wants(std::string_view activation) const;
  // To those that want it.
  void Take(std::string_view activation, ConstTensorView value) const;
  void Change(std::string_view activation, TensorView value) const;

 private:
  // A list is copied with every layer's input: it takes no memory.
  static constexpr size_t kMost = 8;
  std::span<RunHooks* const> all() const { return {hooks_.data(), count_}; }

  std::array<RunHooks*, kMost> hooks_ = {};
  size_t count_ = 0;
};

}  // namespace headwise
