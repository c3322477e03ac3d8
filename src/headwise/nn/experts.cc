// Experts: parts that fit each other, their numbers, and the router's call.
// Forward and backward: experts_run.cc. Door: experts.h.
#include "headwise/nn/experts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

[[noreturn]] void RefuseParts(const std::string& name,
                              const std::string& expected,
                              const std::string& found) {
  throw Error(ErrorCode::kInvalidArgument,
              {name.empty() ? "experts" : name, expected, found, ""});
}

std::string Widths(int64_t in, int64_t out) {
  return std::to_string(in) + " → " + std::to_string(out);
}

void CheckWidths(const std::string& name, const char* part, const Linear& layer,
                 int64_t in, int64_t out) {
  if (layer.in() == in && layer.out() == out) return;
  RefuseParts(name, std::string(part) + " " + Widths(in, out),
              Widths(layer.in(), layer.out()));
}

void CheckMlp(const std::string& name, const char* part, const Mlp& mlp,
              int64_t width) {
  if (mlp.in().in() == width && mlp.down().out() == width) return;
  RefuseParts(name, std::string(part) + " " + Widths(width, width),
              Widths(mlp.in().in(), mlp.down().out()));
}

void CheckParts(const ExpertsParts& parts) {
  const std::string& name = parts.name;
  const int64_t experts = std::ssize(parts.experts);
  if (experts == 0) RefuseParts(name, "an expert at least", "none");
  const int64_t width = parts.experts[0].in().in();
  CheckExpertRouter(parts.config, experts);
  CheckWidths(name, "a router", parts.router, width, experts);
  for (const Mlp& expert : parts.experts) {
    CheckMlp(name, "an expert", expert, width);
  }
  const bool shared = parts.shared.hidden() > 0;
  if (shared) CheckMlp(name, "a shared expert", parts.shared, width);
  if (parts.shared_gate) {
    if (!shared) RefuseParts(name, "a shared expert behind its gate", "none");
    CheckWidths(name, "a shared expert's gate", parts.shared_gate, width, 1);
    if (parts.shared_gate.layout() != parts.router.layout()) {
      RefuseParts(name, "a router and a shared expert's gate of one layout",
                  "two");
    }
  }
  const ConstTensorView& correction = parts.correction.value;
  if (correction && (correction.rank != 1 || correction.shape[0] != experts)) {
    RefuseParts(name, "a correction [" + std::to_string(experts) + "]",
                ToString(correction));
  }
}

// Both read the same input: one product serves them.
Linear RouterAndGate(const Linear& router, const Linear& gate) {
  std::vector<Linear::Part> parts = router.parts();
  parts.insert(parts.end(), gate.parts().begin(), gate.parts().end());
  return {std::move(parts), router.layout()};
}

int64_t NumbersOf(const Linear& layer) {
  int64_t count = 0;
  for (const Parameter* one : layer.parameters()) count += one->value.size();
  return count;
}

int64_t NumbersOf(const Mlp& mlp) {
  return NumbersOf(mlp.in()) + NumbersOf(mlp.down());
}

// Takes the last column of [T, E + 1] out, as sigmoids.
std::vector<float> TakeGates(std::vector<float>& logits, int64_t experts) {
  const int64_t tokens = std::ssize(logits) / (experts + 1);
  std::vector<float> gates(tokens);
  for (int64_t t = 0; t < tokens; ++t) {
    const auto row = logits.begin() + t * (experts + 1);
    gates[t] = static_cast<float>(1 / (1 + std::exp(-double{row[experts]})));
    std::copy_n(row, experts, logits.begin() + t * experts);
  }
  logits.resize(tokens * experts);
  return gates;
}

Parameter EntryOrNone(const Parameter& stack, int64_t i) {
  return stack ? EntryOf(stack, i) : Parameter();
}

}  // namespace

Experts::Experts(ExpertsParts parts) {
  CheckParts(parts);
  name_ = std::move(parts.name);
  config_ = parts.config;
  router_ = parts.shared_gate ? RouterAndGate(parts.router, parts.shared_gate)
                              : std::move(parts.router);
  correction_ = Values(std::move(parts.correction));
  experts_ = std::move(parts.experts);
  shared_ = std::move(parts.shared);
}

std::vector<const Linear*> Experts::linears() const {
  std::vector<const Linear*> layers = {&router_};
  const auto add = [&](const Mlp& mlp) {
    layers.push_back(&mlp.in());
    layers.push_back(&mlp.down());
  };
  if (has_shared()) add(shared_);
  for (const Mlp& expert : experts_) add(expert);
  return layers;
}

int64_t Experts::parameters() const {
  int64_t count = correction() ? correction().value.size() : 0;
  for (const Linear* layer : linears()) count += NumbersOf(*layer);
  return count;
}

int64_t Experts::active_parameters() const {
  int64_t all = 0, largest = 0;
  for (const Mlp& expert : experts_) {
    all += NumbersOf(expert);
    largest = std::max(largest, NumbersOf(expert));
  }
  return parameters() - all + config_.active * largest;
}

ExpertRoute Experts::Route(Context& context, ConstTensorView x,
                           const ExpertsInput& input) const {
  const int64_t experts = std::ssize(experts_);
  const Temp logits(context, DType::kF32, {x.shape[0], router_.out()});
  router_.Forward(context, x, logits.view());
  std::vector<float> on_host = ToVector<float>(context, logits.view());
  ExpertRoute route;
  if (gates_shared()) route.gates = TakeGates(on_host, experts);
  std::vector<float> correction;
  if (correction_) {
    correction = ToVector<float>(context, correction_.view(context));
  }
  route.choice =
      ChooseExperts(config_, experts, std::move(on_host), correction);
  if (input.loss != nullptr && input.balance != 0) {
    *input.loss += input.balance * BalanceLoss(config_, route.choice);
  }
  if (input.hooks.WantsSome()) {
    Offer(context, route.choice, Columns(logits.view(), 0, experts),
          input.hooks);
  }
  return route;
}

void Experts::Offer(Context& context, const ExpertChoice& choice,
                    ConstTensorView logits, const HookList& hooks) const {
  const std::string prefix = name_ + ".router.";
  const auto give = [&](const char* what, const auto& numbers, int64_t rows) {
    const Temp taken =
        CopyOf(context, Reshaped(ViewOf(numbers), {rows, choice.experts}));
    hooks.Take(prefix + what, taken.view());
  };
  hooks.Take(prefix + "logits", logits);
  if (hooks.Wants(prefix + "weights")) {
    std::vector<float> weights(choice.logits.size());
    for (int64_t i = 0; i < std::ssize(choice.chosen); ++i) {
      const int64_t token = i / config_.active;
      weights[token * choice.experts + choice.chosen[i]] = choice.weights[i];
    }
    give("weights", weights, choice.tokens);
  }
  if (hooks.Wants(prefix + "use")) {
    const ExpertUse use = UseOf(choice);
    std::vector<double> numbers(use.tokens.begin(), use.tokens.end());
    numbers.insert(numbers.end(), use.weight.begin(), use.weight.end());
    give("use", numbers, 2);
  }
}

Parameter EntryOf(const Parameter& stack, int64_t i) {
  Parameter entry = stack;
  entry.value = At(stack.value, 0, i);
  entry.gradient = At(stack.gradient, 0, i);
  entry.compute = At(stack.compute, 0, i);
  entry.mapped = false;  // the other entries' pages are not ours to give back
  entry.within = {};     // a tensor of its own, of which slices can be taken
  return entry;
}

std::vector<Mlp> ExpertsOf(const ExpertStacks& stacks) {
  const int64_t experts = stacks.in.value.shape[0];
  std::vector<Mlp> made;
  for (int64_t e = 0; e < experts; ++e) {
    const Linear in({{EntryOf(stacks.in, e), EntryOrNone(stacks.in_bias, e)}},
                    stacks.layout);
    Linear down({{EntryOf(stacks.down, e), EntryOrNone(stacks.down_bias, e)}},
                stacks.layout);
    const int64_t hidden = down.in();
    if (in.out() != (stacks.gated ? 2 : 1) * hidden) {
      RefuseParts(stacks.in.name,
                  std::to_string((stacks.gated ? 2 : 1) * hidden) + " outputs",
                  std::to_string(in.out()));
    }
    if (stacks.interleaved) {
      made.push_back(Mlp::Interleaved(stacks.activation, in, std::move(down)));
      continue;
    }
    made.emplace_back(stacks.activation,
                      stacks.gated ? in.OutputRange(0, hidden) : Linear(),
                      stacks.gated ? in.OutputRange(hidden, 2 * hidden) : in,
                      std::move(down));
  }
  return made;
}

}  // namespace headwise
