// Where a caller reaches into a running model: it may set gates, replacements
// and observations of every attention call, read what the call left, and take
// named activations. Weights are never edited.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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
  // Gates and a replacement that lie on the host are copied to the device.
  virtual void BeforeAttention(const AttentionSite& site,
                               const AttentionProblem& problem,
                               AttentionArgs& args) {}
  // args as they were run, with lse, so that second passes can follow.
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
};

}  // namespace headwise
