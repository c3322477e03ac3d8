// Block: what its steps are, and the forward. Backwards: block_backward.cc.
// Door: block.h.
#include "headwise/nn/block.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/block_run.h"
#include "headwise/nn/finite.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

const AttentionLayer& LayerOf(const BlockStep* step) {
  static const AttentionLayer none;
  return step == nullptr ? none : step->attention;
}

// The matrix that a step multiplies its input with.
const Linear& FirstLinear(const BlockStep& step) {
  const AttentionWeights& attention = step.attention.weights();
  return step.experts                          ? step.experts.router()
         : step.kind == StepKind::kFeedForward ? step.mlp.in()
         : attention.latent                    ? attention.latent.weights().down
                                               : attention.of_x;
}

void RequireSense(const std::string& name, const BlockStep& step,
                  const BlockStep* before) {
  const bool alone = step.input == StepInput::kStream;
  if (!alone && before == nullptr) {
    throw Error(ErrorCode::kUnsupported, {name, "a step that reads the stream",
                                          "one beside no other", ""});
  }
  if (!alone && (step.joined || before->joined)) {
    throw Error(ErrorCode::kUnsupported,
                {name, "parallel steps that are only added",
                 "a norm of their sum", ""});
  }
  if (!alone && (step.stream_scale != 1 || before->stream_scale != 1)) {
    throw Error(ErrorCode::kUnsupported,
                {name, "parallel steps that are only added",
                 "a scale of their sum", ""});
  }
}

BlockStep StepWith(StepKind kind, NormPlace place, Norm norm,
                   AttentionLayer attention = {}) {
  BlockStep step;
  step.kind = kind;
  (place == NormPlace::kPre ? step.before : step.joined) = std::move(norm);
  step.attention = std::move(attention);
  return step;
}

}  // namespace

BlockStep AttentionStep(NormPlace place, Norm norm, AttentionLayer layer) {
  return StepWith(StepKind::kAttention, place, std::move(norm),
                  std::move(layer));
}

BlockStep CrossStep(NormPlace place, Norm norm, AttentionLayer layer) {
  return StepWith(StepKind::kCross, place, std::move(norm), std::move(layer));
}

BlockStep MlpStep(NormPlace place, Norm norm, Mlp mlp) {
  BlockStep step = StepWith(StepKind::kFeedForward, place, std::move(norm));
  step.mlp = std::move(mlp);
  return step;
}

BlockStep ExpertsStep(NormPlace place, Norm norm, Experts experts) {
  BlockStep step = StepWith(StepKind::kFeedForward, place, std::move(norm));
  step.experts = std::move(experts);
  return step;
}

const char* BlockStep::name() const {
  switch (kind) {
    case StepKind::kAttention:
      return "attention";
    case StepKind::kCross:
      return "cross";
    case StepKind::kFeedForward:
      break;
  }
  return "mlp";
}

std::vector<const Linear*> BlockStep::linears() const {
  std::vector<const Linear*> all;
  if (experts) {
    all = experts.linears();
  } else if (kind == StepKind::kFeedForward) {
    all = {&mlp.in(), &mlp.down()};
  } else {
    all = attention.inputs();
    all.push_back(&attention.weights().output_gate.projection());
    all.push_back(&attention.output());
  }
  std::erase_if(all, [](const Linear* linear) { return !*linear; });
  return all;
}

std::vector<const Norm*> BlockStep::norms() const {
  const AttentionWeights& w = attention.weights();
  std::vector<const Norm*> all = {&before, &after, &joined};
  for (const HeadNorms* of : {&w.query_norm, &w.key_norm}) {
    for (const Norm& norm : of->norms()) all.push_back(&norm);
  }
  for (const Norm* norm : w.latent.norms()) all.push_back(norm);
  std::erase_if(all, [](const Norm* norm) { return !*norm; });
  return all;
}

std::vector<const Parameter*> BlockStep::weights() const {
  std::vector<const Parameter*> all;
  for (const Norm* norm : norms()) {
    if (norm->weight_parameter()) all.push_back(&norm->weight_parameter());
    if (norm->bias_parameter()) all.push_back(&norm->bias_parameter());
  }
  for (const Linear* linear : linears()) {
    const auto own = linear->parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  const Parameter& sinks = attention.weights().sinks.parameter();
  for (const Parameter* one : {&sinks, &experts.correction()}) {
    if (*one) all.push_back(one);
  }
  if (const auto& bias = attention.weights().bias) {
    all.push_back(&bias->table());
  }
  return all;
}

bool BlockStep::Learns() const {
  const AttentionWeights& w = attention.weights();
  if (w.gates.trainable() || w.spans.trainable()) return true;
  const auto all = weights();
  return std::any_of(all.begin(), all.end(), [](const Parameter* weight) {
    return weight->trainable();
  });
}

Block::Block(std::string name, std::vector<BlockStep> steps)
    : name_(std::move(name)), steps_(std::move(steps)) {
  const BlockStep* before = nullptr;
  for (const BlockStep& step : steps_) {
    RequireSense(NameOf(step), step, before);
    before = &step;
  }
  const Linear& output = attention().weights().output;
  trained_ = output && !output.parameters()[0]->fixed();
}

Block Block::SharedAs(std::string name, int64_t layer) const {
  std::vector<BlockStep> steps = steps_;
  for (BlockStep& step : steps) {
    if (step.kind == StepKind::kFeedForward) continue;
    const AttentionLayer& of = step.attention;
    step.attention =
        AttentionLayer(of.config(), of.weights(),
                       {of.site().kind, layer, name + "." + step.name()});
  }
  return {std::move(name), std::move(steps)};
}

const BlockStep* Block::Find(StepKind kind) const {
  const auto found =
      std::find_if(steps_.begin(), steps_.end(),
                   [&](const BlockStep& step) { return step.kind == kind; });
  return found == steps_.end() ? nullptr : &*found;
}

const AttentionLayer& Block::attention() const {
  return LayerOf(Find(StepKind::kAttention));
}

const AttentionLayer& Block::cross() const {
  return LayerOf(Find(StepKind::kCross));
}

std::vector<const Linear*> Block::linears() const {
  std::vector<const Linear*> all;
  for (const BlockStep& step : steps_) {
    const auto own = step.linears();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

bool Block::Learns() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const BlockStep& step) { return step.Learns(); });
}

std::string Block::NameOf(const BlockStep& step) const {
  return name_ + "." + step.name();
}

// Throws Error(kCorrupt) for x that is not finite (finite.h).
void Block::RequireFinite(const Run& run, const BlockStep& step,
                          TensorView x) const {
  if (trained_ || !ChecksEachStep(run.context)) return;
  if (AllWithin(run.context, x, kMostFinite)) return;
  ThrowNotFinite(run.context, {NameOf(step) + ".output", step.weights()}, x);
}

// The input of a step that reads x.
Temp Block::Read(const Run& run, size_t index, TensorView x) const {
  const BlockStep& step = steps_[index];
  Temp input(run.context, x.type, {x.shape[0], x.shape[1]});
  if (!step.before) {
    Copy(run.context, x, input.view());
    return input;
  }
  StepSaved* saved = run.Saved(index);
  TensorView kept;
  if (saved != nullptr) {
    saved->before.x = Temp(run.context, x.type, {x.shape[0], x.shape[1]});
    kept = saved->before.x.view();
  }
  step.before.Forward(run.context, x, input.view(),
                      saved != nullptr ? &saved->before.norm : nullptr, kept);
  return input;
}

// y [T, d] = or += f(in).
void Block::Work(const Run& run, size_t index, ConstTensorView in, TensorView y,
                 Store store) const {
  const BlockStep& step = steps_[index];
  StepSaved* saved = run.Saved(index);
  if (step.kind != StepKind::kFeedForward) {
    AttentionInput attention = run.Attention(step, index);
    attention.x = in;
    return step.attention.Forward(run.context, attention, y, store);
  }
  if (step.experts) {
    const ExpertsInput input = run.OfExperts();
    if (saved == nullptr) {
      return step.experts.Forward(run.context, in, y, store, input);
    }
    return step.experts.ForwardSaving(run.context, in, y, store, saved->experts,
                                      input);
  }
  if (saved == nullptr) return step.mlp.Forward(run.context, in, y, store);
  step.mlp.ForwardSaving(run.context, in, y, store, saved->mlp);
}

// x += what the step makes of its input.
void Block::Add(const Run& run, size_t index, ConstTensorView in,
                TensorView x) const {
  const BlockStep& step = steps_[index];
  const HookList& hooks = run.input.hooks;
  // Names are made only where somebody listens: one token takes a millisecond.
  const std::string activation =
      hooks.WantsSome() ? NameOf(step) + ".output" : std::string();
  const bool wanted = !activation.empty() && hooks.Wants(activation);
  const DropoutMask dropout = run.Dropout(step);
  if (!wanted && dropout.rate == 0 && !step.after && step.scale == 1) {
    return Work(run, index, in, x, Store::kAccumulate);
  }
  Context& context = run.context;
  const Shape shape = {x.shape[0], x.shape[1]};
  const Temp memory(context, x.type, shape);
  const TensorView added = memory.view();
  Work(run, index, in, added, Store::kOverwrite);
  if (step.after) {
    StepSaved* saved = run.Saved(index);
    if (saved != nullptr) saved->after.x = CopyOf(context, added);
    step.after.Forward(context, added, added,
                       saved != nullptr ? &saved->after.norm : nullptr);
  }
  if (step.scale != 1) Scale(context, step.scale, added, added);
  if (wanted) hooks.Change(activation, added);
  if (dropout.rate > 0) headwise::Dropout(context, dropout, {added, added});
  AddTo(context, added, x);
}

// beside: the input of this step, where the step before made it, then that of
// the next one, if it reads what this one read.
void Block::Step(const Run& run, size_t index, TensorView x,
                 Temp& beside) const {
  const BlockStep& step = steps_[index];
  const StepInput next =
      index + 1 < steps_.size() ? steps_[index + 1].input : StepInput::kStream;
  Temp input = beside ? std::move(beside) : Read(run, index, x);
  beside = next == StepInput::kBeside ? Read(run, index + 1, x) : Temp();
  Add(run, index, input.view(), x);
  RequireFinite(run, step, x);
  if (step.stream_scale != 1) Scale(run.context, step.stream_scale, x, x);
  StepSaved* saved = run.Saved(index);
  if (step.joined) {
    if (saved != nullptr) saved->joined.x = CopyOf(run.context, x);
    step.joined.Forward(run.context, x, x,
                        saved != nullptr ? &saved->joined.norm : nullptr);
    RequireFinite(run, step, x);
  }
  if (saved == nullptr) {
    if (next == StepInput::kShared) beside = std::move(input);
    return;
  }
  if (next == StepInput::kShared) beside = CopyOf(run.context, input.view());
  saved->input = std::move(input);
}

bool Block::Forward(Context& context, const BlockInput& input,
                    TensorView x) const {
  const auto offer = [&](const char* suffix) {
    if (input.hooks.WantsSome()) input.hooks.Change(name_ + suffix, x);
  };
  offer(".input");
  const Run run = {context, input};
  if (input.saved != nullptr) input.saved->steps.resize(steps_.size());
  Temp beside;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const BlockStep& step = steps_[i];
    // While a norm runs a device may fetch what is multiplied next.
    if (!context.device().is_cpu() && step.before && !beside) {
      FirstLinear(step).Expect(context, x.shape[0]);
    }
    Step(run, i, x, beside);
    if (&step.attention.site() == input.stop_after) return false;
  }
  offer(".output");
  return true;
}

}  // namespace headwise
