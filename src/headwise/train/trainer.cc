// Training steps. Door: trainer.h.
#include "headwise/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/temp.h"
#include "headwise/train/gradient_sum.h"
#include "headwise/train/schedule.h"

namespace headwise {
namespace {

// Dropout streams of one pass through a model (model.h).
constexpr int kStreamBits = 20;
// Sequences of an evaluation that pass together.
constexpr int64_t kEvaluationBatch = 8;

bool AllFinite(Context& context, const ConstTensorView& values) {
  return AllWithin(context, values, std::numeric_limits<float>::max());
}

// A batch on its way through a model. Encoder–decoders: the batch's rows are
// the decoder's.
PassInput InputOf(const Model& model, const TrainBatch& batch) {
  if (model.decoder() == nullptr) {
    return {.ids = batch.ids, .batch = &batch.batch};
  }
  return {.ids = batch.source_ids,
          .batch = &batch.source,
          .decoder_ids = batch.ids,
          .decoder_batch = &batch.batch};
}

// The factor of −ln A of one query: an assignment's loss is a mean over the
// step.
std::vector<double> FactorsOf(
    const AssignedHeads& heads,
    const std::vector<std::vector<RelationPairs>>& pairs,
    const GradientTree& tree) {
  std::vector<int64_t> queries(heads.size());
  for (const auto& batch : pairs) {
    for (size_t i = 0; i < heads.size(); ++i) {
      queries[i] += std::ssize(batch[i].queries);
    }
  }
  tree.AllReduce(queries);
  std::vector<double> factors;
  for (size_t i = 0; i < heads.size(); ++i) {
    factors.push_back(heads[i].weight /
                      static_cast<double>(std::max<int64_t>(queries[i], 1)));
  }
  return factors;
}

// Else products would quietly read values of the other type.
void RequireSameType(const Model& model, const ParameterStore& store) {
  if (model.type() == store.compute()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"training",
               std::string("a model of ") + Name(store.compute()) +
                   ", as its parameters were opened for",
               Name(model.type()), "give BuildModel the same type"});
}

// Final states [rows, d] of a batch that nobody asks back.
Temp Finals(Context& context, const Model& model, const TrainBatch& batch,
            const HookList& hooks = {}) {
  PassInput input = InputOf(model, batch);
  input.hooks = hooks;
  Temp x(context, model.type(), {batch.batch.total(), model.config().width});
  SequencePass(model, input).Forward(context, x.view());
  return x;
}

}  // namespace

Trainer::Trainer(Context& context, const TrainConfig& config,
                 const Model& model, ParameterStore& store,
                 const Classifier* classifier)
    : context_(context),
      config_(config),
      model_(model),
      store_(store),
      classifier_(classifier),
      assigned_(ReadAssignments(config.heads, "training"), model),
      optimizer_(context, store) {
  RequireSameType(model, store);
  store.Round(context);
  optimizer_.ScaleRate(".log_alpha", config.gate_rate);
}

void Trainer::ShareWith(dist::Group* group) {
  group_ = group;
  sum_.reset();
  if (config_.shard_optimizer && group != nullptr && !group->is_single()) {
    optimizer_.ShareAmong(context_, *group);
  }
}

void Trainer::Record(Timeline* timeline) {
  timeline_ = timeline;
  sum_.reset();
}

double Trainer::Loss(ConstTensorView x, const HeadTargets& targets,
                     TensorView dx) const {
  if (classifier_ == nullptr) return model_.HeadLoss(context_, x, targets, dx);
  return classifier_->Loss(context_, x, targets, dx, nullptr);
}

double Trainer::Differentiate(const TrainBatch& batch, float scale,
                              DropoutMask dropout, const HookList& hooks,
                              const GateTraining* gates) const {
  PassInput input = InputOf(model_, batch);
  input.hooks = hooks;
  input.dropout = dropout;
  input.gate_training = gates;
  return Differentiate(batch, scale, input);
}

double Trainer::Differentiate(const TrainBatch& batch, float scale,
                              PassInput input) const {
  Laps laps(timeline_, Timeline::Row::kCompute);
  const PartDone* next = input.on_backward;
  const PartDone done = [&](const std::string& part) {
    laps.End("backward " + part);
    if (next != nullptr) (*next)(part);
  };
  input.keep = true;
  input.recompute = config_.recompute;
  input.on_backward = &done;
  SequencePass pass(model_, input);
  const Shape shape = {pass.rows(), model_.config().width};
  const Temp x(context_, model_.type(), shape);
  pass.Forward(context_, x.view());
  laps.End("forward");
  const Temp dx(context_, model_.type(), shape);
  HeadTargets targets;
  targets.targets = batch.targets;
  targets.smoothing = static_cast<float>(config_.smoothing);
  targets.scale = scale;
  const double loss = Loss(x.view(), targets, dx.view());
  done("head");
  pass.Backward(context_, dx.view());
  return loss;
}

std::vector<std::vector<RelationPairs>> Trainer::PairsOf(
    std::span<const TrainBatch> batches) const {
  std::vector<std::vector<RelationPairs>> pairs(batches.size());
  for (size_t b = 0; b < batches.size(); ++b) {
    for (size_t i = 0; i < assigned_.size(); ++i) {
      pairs[b].push_back(FindPairs(assigned_[i].relation, batches[b].ids,
                                   batches[b].batch.starts, assigned_.mask(i)));
    }
  }
  return pairs;
}

StepReport Trainer::Step(const BatchSource& source, const HookList& hooks) {
  StepReport report;
  report.step = step();
  report.rate = RateAt(config_, report.step);
  if (timeline_ != nullptr) timeline_->BeginStep();
  if (sum_ == nullptr) {
    sum_ = std::make_unique<GradientSum>(
        context_, model_, store_,
        GradientSharing{group_, config_.parts, config_.reduce, config_.bucket,
                        timeline_});
  }
  const GradientTree& tree = sum_->tree();
  // Passes of the step, and of one of its parts.
  const int64_t passes = config_.batch / config_.micro_batch;
  const int64_t of_part = passes / config_.parts;
  const int64_t first = tree.begin() * of_part;
  std::vector<TrainBatch> batches;  // of this rank's parts
  int64_t counts[] = {0, 0};        // targets, tokens
  for (int64_t pass = first; pass < tree.end() * of_part; ++pass) {
    batches.push_back(
        source.Make(report.step * config_.batch + pass * config_.micro_batch,
                    config_.micro_batch));
    counts[0] += batches.back().CountTargets();
    counts[1] += static_cast<int64_t>(batches.back().ids.size() +
                                      batches.back().source_ids.size());
  }
  tree.AllReduce(counts);
  report.tokens = counts[1];
  const float scale =
      1.0f / static_cast<float>(std::max<int64_t>(counts[0], 1));
  // Penalties are of the step, not of its passes.
  const float share = 1.0f / static_cast<float>(passes);
  GateTraining gates;
  gates.head_dropout = static_cast<float>(HeadDropoutAt(config_, report.step));
  gates.gate_penalty = share * static_cast<float>(config_.gate_penalty);
  gates.balance = share * static_cast<float>(config_.balance);
  gates.span_penalty = share * static_cast<float>(config_.span_penalty);
  gates.seed = config_.seed;
  const auto pairs = PairsOf(batches);
  const std::vector<double> factors = FactorsOf(assigned_, pairs, tree);
  const size_t parts = static_cast<size_t>(config_.parts);
  std::vector<double> losses(parts), penalties(parts), assigned(parts);
  sum_->Sum([&](int64_t part, const PartDone* done) {
    gates.loss = &penalties[part];
    const int64_t end = (part + 1) * of_part;
    for (int64_t pass = part * of_part; pass < end; ++pass) {
      const auto stream = static_cast<uint64_t>(report.step * passes + pass);
      AssignmentHooks assigning(context_, assigned_, pairs[pass - first],
                                factors);
      PassInput input = InputOf(model_, batches[pass - first]);
      input.hooks = hooks;
      if (!assigned_.empty()) input.hooks.Add(&assigning);
      input.dropout = {static_cast<float>(config_.dropout), config_.seed,
                       stream << kStreamBits};
      input.gate_training = &gates;
      if (pass + 1 == end) input.on_backward = done;
      losses[part] += Differentiate(batches[pass - first], scale, input);
      assigned[part] += assigning.loss();
    }
  });
  for (std::vector<double>* sums : {&losses, &penalties, &assigned}) {
    tree.AllReduce(*sums);
  }
  for (size_t part = 0; part < parts; ++part) {
    report.loss += losses[part];
    report.penalty += penalties[part];
    report.assigned += assigned[part];
  }
  report.loss *= scale;
  report.gradient_norm = optimizer_.GradientNorm(context_);
  const double loss = report.loss + report.assigned;
  if (!std::isfinite(loss) || !std::isfinite(report.gradient_norm)) {
    NameCulprit(batches.front(), loss, report.gradient_norm);
  }
  AdamWProblem how;
  how.rate = static_cast<float>(report.rate);
  how.beta1 = static_cast<float>(config_.beta1);
  how.beta2 = static_cast<float>(config_.beta2);
  how.epsilon = static_cast<float>(config_.epsilon);
  how.decay = static_cast<float>(config_.decay);
  Laps laps(timeline_, Timeline::Row::kCompute);
  optimizer_.Step(context_, how, report.gradient_norm, config_.clip);
  laps.End("update");
  return report;
}

double Trainer::Evaluate(const BatchSource& source, int64_t sequences) const {
  const int64_t count = std::min(sequences, source.size());
  const int64_t ranks = group_ != nullptr ? group_->size() : 1;
  const int64_t rank = group_ != nullptr ? group_->rank() : 0;
  // Batches are dealt out in turn, and their losses added in order.
  std::vector<double> losses((count + kEvaluationBatch - 1) / kEvaluationBatch);
  int64_t targets[] = {0};
  for (int64_t i = rank; i < std::ssize(losses); i += ranks) {
    const int64_t first = i * kEvaluationBatch;
    const TrainBatch batch =
        source.Make(first, std::min(kEvaluationBatch, count - first));
    const Temp x = Finals(context_, model_, batch);
    HeadTargets head;
    head.targets = batch.targets;
    losses[i] = Loss(x.view(), head, {});
    targets[0] += batch.CountTargets();
  }
  if (ranks > 1) {
    group_->AllReduce(std::span<double>(losses));
    group_->AllReduce(std::span<int64_t>(targets));
  }
  if (targets[0] == 0) return std::numeric_limits<double>::quiet_NaN();
  double loss = 0;
  for (const double part : losses) loss += part;
  return loss / static_cast<double>(targets[0]);
}

void Trainer::NameCulprit(const TrainBatch& batch, double loss,
                          double norm) const {
  std::string found = std::isfinite(loss)
                          ? "a gradient of norm " + std::to_string(norm)
                          : "a loss of " + std::to_string(loss);
  std::string tensor;
  // Whole buffers first: the name is looked for where one has the fault.
  const auto find = [&](const char* what, auto buffer_of, auto view_of) {
    bool finite = true;
    for (const ParameterStore::Buffer& buffer : store_.buffers()) {
      const Tensor& all = buffer_of(buffer);
      if (all.size() > 0 && !AllFinite(context_, all.view())) finite = false;
    }
    if (finite) return;
    for (const auto& [name, entry] : store_.entries()) {
      const TensorView& view = view_of(entry);
      if (!view || AllFinite(context_, view)) continue;
      tensor = what + name;
      return;
    }
  };
  using Buffer = ParameterStore::Buffer;
  using Entry = ParameterStore::Entry;
  find("the parameter ", std::mem_fn(&Buffer::value),
       std::mem_fn(&Entry::value));
  if (tensor.empty()) {
    ActivationTaker check([&](std::string_view) { return tensor.empty(); },
                          [&](std::string_view name, ConstTensorView value) {
                            if (!tensor.empty() || value.rank != 2) return;
                            if (AllFinite(context_, value)) return;
                            tensor = "the activation " + std::string(name);
                          });
    Finals(context_, model_, batch, &check);
  }
  if (tensor.empty()) {
    find("the gradient of ", std::mem_fn(&Buffer::gradient),
         std::mem_fn(&Entry::gradient));
  }
  if (!tensor.empty()) found += ", first in " + tensor;
  throw Error(ErrorCode::kInvalidArgument,
              {"training step " + std::to_string(step()),
               "a finite loss and gradient", found,
               "lower the rate or lengthen the warm-up; the last checkpoint "
               "is whole"});
}

}  // namespace headwise
