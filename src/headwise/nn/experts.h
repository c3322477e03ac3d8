// A mixture of experts as the feed-forward half of a block. A router gives each
// token a few experts e_1 … e_K with weights w, and only these are computed:
//
//   y = Σ_j w_j · expert_{e_j}(x) + g · shared(x)
//
// The shared expert may be absent, and its gate g = σ(gate · x) too (g is 1).
// Rows are grouped by expert. Each token's sum is made in f32, the shared
// expert first, then the others in ascending order, on any number of threads.
//
// The choice is made on the host (expert_router.h): on a device each call waits
// once for its [T, E] logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/expert_router.h"
#include "headwise/nn/hooks.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/mlp.h"
#include "headwise/nn/parameter.h"
#include "headwise/tensor/temp.h"

namespace headwise {

struct ExpertsParts {
  std::string name;  // prefix of its activations: "layer.3.mlp"
  ExpertRouterConfig config = {};
  Linear router = {};  // d → E
  // [E]: of the choice alone; may be absent.
  Parameter correction = {};
  std::vector<Mlp> experts = {};
  Mlp shared = {};          // may be absent
  Linear shared_gate = {};  // d → 1; may be absent
};

// Inputs of a call besides x. Hooks are offered, all on the context's device:
//
//   NAME.router.logits   f32 [T, E]
//   NAME.router.weights  f32 [T, E], 0 where a token did not choose an expert
//   NAME.router.use      f64 [2, E]: how many tokens chose an expert, and its
//                        mean weight over these
struct ExpertsInput {
  HookList hooks = {};
  // Training: `balance` · BalanceLoss of this call is added to `loss`, and its
  // gradient to Backward's. Null: 0.
  float balance = 0;
  double* loss = nullptr;
};

// The rows of T tokens: a row is a token and an expert that it chose. Rows lie
// by expert, then token.
struct ExpertRows {
  std::vector<int32_t> entries;  // of each row: its place in [T, K]
  std::vector<int32_t> places;   // [K, T]: the row of a token's j-th expert
  std::vector<int64_t> starts;   // [E + 1]: rows of expert e begin at starts[e]

  int64_t count() const { return std::ssize(entries); }
};

// The router's choice for a call's tokens.
struct ExpertRoute {
  ExpertChoice choice;
  std::vector<float>
      gates;  // [T] of the shared expert; empty where it has none
};

// A forward's results that its backward reads besides the input.
struct ExpertsSaved {
  ExpertRoute route;
  ExpertRows rows;
  std::vector<MlpSaved> experts;  // empty where no token chose the expert
  Temp outputs;                   // f32 [rows, d], not yet weighted
  MlpSaved shared;
  Temp shared_output;  // f32 [T, d] before its gate; empty where it has none
  float balance = 0;
};

class Experts {
 public:
  Experts() = default;
  // Throws Error(kInvalidArgument) for parts that do not fit each other.
  explicit Experts(ExpertsParts parts);

  explicit operator bool() const { return !experts_.empty(); }
  const std::string& name() const { return name_; }
  const ExpertRouterConfig& config() const { return config_; }
  const std::vector<Mlp>& experts() const { return experts_; }
  const Mlp& shared() const { return shared_; }
  bool has_shared() const { return shared_.hidden() > 0; }
  // The router, and the shared expert's gate behind it as one layer.
  const Linear& router() const { return router_; }
  const Parameter& correction() const { return correction_.parameter(); }

  // All layers with weights: router, shared expert, experts.
  std::vector<const Linear*> linears() const;
  // Numbers that the checkpoint holds, and those that serve one token.
  int64_t parameters() const;
  int64_t active_parameters() const;

  // x [T, d]; y [T, d] overwritten or added to. On the CPU tokens pass in
  // blocks: the rows and hidden layers of a long text are never held whole.
  void Forward(Context& context, ConstTensorView x, TensorView y, Store store,
               const ExpertsInput& input = {}) const;

  // The same, all tokens at once, keeping what Backward needs.
  void ForwardSaving(Context& context, ConstTensorView x, TensorView y,
                     Store store, ExpertsSaved& saved,
                     const ExpertsInput& input = {}) const;
  // x [T, d] of that call, dy [T, d]; dx [T, d] is overwritten. Frozen weights
  // are skipped.
  void Backward(Context& context, ConstTensorView x, const ExpertsSaved& saved,
                ConstTensorView dy, TensorView dx) const;

 private:
  ExpertRoute Route(Context& context, ConstTensorView x,
                    const ExpertsInput& input) const;
  void Offer(Context& context, const ExpertChoice& choice,
             ConstTensorView logits, const HookList& hooks) const;
  bool gates_shared() const { return router_.out() > std::ssize(experts_); }
  // Runs tokens [begin, begin + x.shape[0]) of the route. saved: null, or all.
  void Run(Context& context, const ExpertRoute& route, int64_t begin,
           ConstTensorView x, TensorView y, Store store,
           ExpertsSaved* saved) const;
  void RunShared(Context& context, std::span<const float> gates,
                 ConstTensorView x, TensorView y, Store store,
                 ExpertsSaved* saved) const;
  // Overwrites dx, f32. Returns the gradient by the gates' logits.
  std::vector<float> SharedBackward(Context& context, ConstTensorView x,
                                    const ExpertsSaved& saved,
                                    ConstTensorView dy, TensorView dx) const;
  // Adds to dx, f32. Returns the gradient by the weights, of each row.
  std::vector<float> ExpertsBackward(Context& context, ConstTensorView x,
                                     const ExpertsSaved& saved,
                                     ConstTensorView dy, TensorView dx) const;
  void RouterBackward(Context& context, ConstTensorView x,
                      const ExpertsSaved& saved,
                      std::span<const float> dweights,
                      std::span<const float> dgates, TensorView dx) const;

  std::string name_;
  ExpertRouterConfig config_;
  Linear router_;
  Values correction_;
  std::vector<Mlp> experts_;
  Mlp shared_;
};

// Entry i of a tensor [E, …] that holds the weights of all experts.
Parameter EntryOf(const Parameter& stack, int64_t i);

// Experts whose weights stand in such tensors: gate beside up, in this order or
// by turns, where `gated`, else up alone; biases may be absent.
struct ExpertStacks {
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool interleaved = false;
  WeightLayout layout = WeightLayout::kOutIn;  // of each entry
  Parameter in = {};         // [E, 2·hidden, d], or [E, hidden, d]
  Parameter in_bias = {};    // [E, 2·hidden], or [E, hidden]
  Parameter down = {};       // [E, d, hidden]
  Parameter down_bias = {};  // [E, d]
};
std::vector<Mlp> ExpertsOf(const ExpertStacks& stacks);

}  // namespace headwise
