// One layer of a transformer: a list of steps around a residual stream x. What
// a step reads, where its norms stand, what it does and how it is added are
// data:
//
//   pre-norm   x += f(before(x))            post-norm  x = joined(x + f(x))
//   sandwich   x += after(f(before(x)))     parallel   x += f(·) + g(·)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/experts.h"
#include "headwise/nn/mlp.h"
#include "headwise/nn/norm.h"
#include "headwise/ops/dropout/dropout.h"

namespace headwise {

enum class StepKind : uint8_t { kAttention, kCross, kFeedForward };

// Where a step's input comes from.
enum class StepInput : uint8_t {
  kStream,  // x as the step before left it
  kBeside,  // x as the step before read it: both are added to one x
  kShared,  // the input of the step before, normed already
};

struct BlockStep {
  StepKind kind = StepKind::kAttention;
  StepInput input = StepInput::kStream;
  // Any of them may be absent.
  Norm before;  // of what is read; not with kShared
  Norm after;   // of what is added
  Norm joined;  // of the sum, in whose place it comes; not with a step beside
  float scale = 1;           // of what is added
  float stream_scale = 1;    // of the sum; not with a step beside
  AttentionLayer attention;  // kAttention, kCross
  // kFeedForward: one of them.
  Mlp mlp;
  Experts experts;

  // "attention", "cross", "mlp": of its activations.
  const char* name() const;
  // The matrices, biases, norms and sink logits that the model has; not what
  // chooses heads.
  std::vector<const Linear*> linears() const;
  std::vector<const Norm*> norms() const;
  std::vector<const Parameter*> weights() const;
  // Whether anything in it learns, what chooses its heads included.
  bool Learns() const;
  // Whether it adds f(before(x)) as it is, to a sum that stays.
  bool is_plain() const {
    return !after && !joined && scale == 1 && stream_scale == 1;
  }
};

// Steps of the usual transformers: the norm stands before f or behind the sum.
enum class NormPlace : uint8_t { kPre, kPost };
BlockStep AttentionStep(NormPlace place, Norm norm, AttentionLayer layer);
BlockStep CrossStep(NormPlace place, Norm norm, AttentionLayer layer);
BlockStep MlpStep(NormPlace place, Norm norm, Mlp mlp);
BlockStep ExpertsStep(NormPlace place, Norm norm, Experts experts);

// A norm's input and results that its backward reads.
struct NormInput {
  Temp x;  // [T, d]
  NormSaved norm;
};

// Results of a step's forward that its backward reads.
struct StepSaved {
  Temp input;  // [T, d] of f
  NormInput before, after, joined;
  AttentionSaved attention;
  MlpSaved mlp;
  ExpertsSaved experts;
};

struct BlockSaved {
  std::vector<StepSaved> steps;
};

// Inputs of a call besides x.
struct BlockInput {
  const SequenceBatch* batch = nullptr;
  ConstTensorView memory;  // decoders: the encoder's output, [S, d]
  const SequenceBatch* memory_batch = nullptr;
  const CacheView* cache = nullptr;        // of self-attention
  const CacheView* cross_cache = nullptr;  // of cross-attention
  SharedKeys* shared = nullptr;            // of self-attention
  HookList hooks = {};
  // The run ends after this layer's attention; null: it does not.
  const AttentionSite* stop_after = nullptr;
  // Whether Backward's dx by the input, and dmemory, are asked for.
  bool input_gradient = true;
  // Training: dropout of what each step adds, its streams counted from this
  // one, and what is kept for Backward.
  DropoutMask dropout = {};
  const GateTraining* gate_training = nullptr;
  BlockSaved* saved = nullptr;
};

class Block {
 public:
  // name: prefix of its activations, "layer.3". Throws Error(kUnsupported) for
  // steps that do not go together.
  Block(std::string name, std::vector<BlockStep> steps);

  // The same steps, with the same weights, as another layer of the stack.
  Block SharedAs(std::string name, int64_t layer) const;

  const std::string& name() const { return name_; }
  const std::vector<BlockStep>& steps() const { return steps_; }
  // The first step of a kind; null: there is none.
  const BlockStep* Find(StepKind kind) const;
  // Its layers; without heads where there is no such step.
  const AttentionLayer& attention() const;
  const AttentionLayer& cross() const;
  bool has_cross() const { return Find(StepKind::kCross) != nullptr; }
  std::vector<const Linear*> linears() const;
  bool Learns() const;

  // x [T, d] in place. Returns whether the run goes on: false after the
  // attention of input.stop_after, when x is of no use.
  bool Forward(Context& context, const BlockInput& input, TensorView x) const;

  // input as in the forward call, with what it saved. dx [T, d] in place: by
  // the output, then by the input. Cross-attention adds to dmemory [S, d].
  // Without input_gradient it ends with the first step that learns.
  void Backward(Context& context, const BlockInput& input, TensorView dx,
                TensorView dmemory) const;

 private:
  struct Run;
  struct Returning;
  std::string NameOf(const BlockStep& step) const;
  void RequireFinite(const Run& run, const BlockStep& step, TensorView x) const;
  Temp Read(const Run& run, size_t index, TensorView x) const;
  void Work(const Run& run, size_t index, ConstTensorView in, TensorView y,
            Store store) const;
  void Add(const Run& run, size_t index, ConstTensorView in,
           TensorView x) const;
  void Step(const Run& run, size_t index, TensorView x, Temp& beside) const;
  void WorkBackward(const Run& run, size_t index, ConstTensorView dy,
                    TensorView dinput, TensorView dmemory) const;
  void StepBackward(const Run& run, size_t index, TensorView dx,
                    TensorView dmemory, Returning& returning) const;

  std::string name_;
  std::vector<BlockStep> steps_;
  bool trained_ = false;  // its numbers are the trainer's to check
};

}  // namespace headwise
