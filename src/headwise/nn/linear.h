// y = x · Wᵀ + b. Several weights that read the same x may stand in one layer,
// their outputs side by side (query, key, value): one product serves all.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/parameter.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/tensor/temp.h"

namespace headwise {

class StoredRows;

enum class WeightLayout : uint8_t {
  kOutIn,  // [out, in], as PyTorch's Linear
  kInOut,  // [in, out], as GPT-2's Conv1D
};

// Places [first, first + count) along an axis of a checkpoint's tensor.
struct StoredSlice {
  const Parameter* of = nullptr;  // of->stored() is the tensor
  int axis = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Outputs of a linear layer as one matrix and one bias, of the checkpoint's own
// encoding: where they lie, or `copies` of them.
struct StoredMatrix {
  Parameter weight;
  Parameter bias;  // may be absent
  WeightLayout layout = WeightLayout::kOutIn;
  std::vector<std::shared_ptr<const Tensor>> copies = {};
};

// What the product makes of weights it makes at the first Forward, so that
// opening a model is cheap; weights that change (trainable ones do) are read in
// each call where they lie. Forward may be called from several threads, each
// with its own Context.
class Linear {
 public:
  struct Part {
    Parameter weight;
    Parameter bias;  // may be absent
  };

  Linear() = default;
  Linear(std::vector<Part> parts, WeightLayout layout);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  const std::vector<Part>& parts() const { return parts_; }
  WeightLayout layout() const { return layout_; }
  // The weights and biases that there are.
  std::vector<const Parameter*> parameters() const;
  bool has_bias() const { return has_bias_; }
  std::vector<const Parameter*> WeightsWithoutBias() const;
  bool is_one_matrix() const { return parts_.size() == 1; }
  // The matrix and the bias, which may be absent, of a layer of one part.
  // Throws Error(kUnsupported) for several.
  const Parameter& weight() const { return Only().weight; }
  const Parameter& bias() const { return Only().bias; }
  // The same layer with nothing prepared yet: that of another context.
  Linear Copied() const { return {parts_, layout_}; }
  // Where outputs [begin, end), with their biases, or inputs are stored.
  std::vector<StoredSlice> OutputSlices(int64_t begin, int64_t end) const;
  std::vector<StoredSlice> InputSlices(int64_t begin, int64_t end) const;
  // Numbers in weights and biases, as the checkpoint holds them.
  int64_t stored_bytes() const;
  // For KeepTogether; null where they change.
  const std::shared_ptr<PreparedWeights>& weights() const { return weights_; }
  explicit operator bool() const { return !parts_.empty(); }

  // x [rows, in], y [rows, out]; y overwritten or added to.
  void Forward(Context& context, ConstTensorView x, TensorView y,
               Store store = Store::kOverwrite) const {
    Run(context, {.a = x, .c = y}, store, Epilogue::kNone);
  }
  // y [rows, out] = gelu(x · Wᵀ + b), and its argument to `inner`, which may be
  // null. Where FusesEpilogue of matmul.h says so.
  void ForwardGelu(Context& context, ConstTensorView x, TensorView inner,
                   TensorView y) const {
    Run(context, {.a = x, .c = y, .inner = inner}, Store::kOverwrite,
        Epilogue::kGeluTanh);
  }

  // y [rows, out/2] = silu(z) · u, where x · Wᵀ + b is z beside u. Likewise.
  void ForwardSiluGated(Context& context, ConstTensorView x,
                        TensorView y) const {
    Run(context, {.a = x, .c = y}, Store::kOverwrite, Epilogue::kSiluGated);
  }

  // A hint that Forward with `rows` rows comes next but for a little work:
  // idle threads may begin to fetch the weights.
  void Expect(Context& context, int64_t rows) const;

  // x [rows, in] of the forward call, dy [rows, out]. dx [rows, in] is
  // overwritten or added to, null: not wanted; gradients of trainable weights
  // are added to.
  void Backward(Context& context, ConstTensorView x, ConstTensorView dy,
                TensorView dx, Store store = Store::kOverwrite) const;
  // Its two halves.
  void BackwardInput(Context& context, ConstTensorView dy, TensorView dx,
                     Store store = Store::kOverwrite) const {
    RunBackward(context, {.a = dy, .c = dx}, store, Epilogue::kNone);
  }
  // The first, and then through y = gelu(inner), from which x came: dx is by
  // inner [rows, in].
  void BackwardInputGelu(Context& context, ConstTensorView dy, TensorView inner,
                         TensorView dx) const {
    RunBackward(context, {.a = dy, .c = dx, .inner = inner}, Store::kOverwrite,
                Epilogue::kGeluTanhBackward);
  }
  void BackwardWeights(Context& context, ConstTensorView x,
                       ConstTensorView dy) const;

  // The same weights and gradients: outputs [begin, end) with their biases, or
  // inputs [begin, end) without any.
  Linear OutputRange(int64_t begin, int64_t end) const;
  Linear InputRange(int64_t begin, int64_t end) const;
  // Outputs [begin, end) as they are stored, on the host: those of one part, or
  // slices of one tensor. Throws Error(kUnsupported) for others.
  StoredMatrix Stored(int64_t begin, int64_t end) const;
  // y [rows, out] = or += the bias alone, and its backward.
  void ForwardBias(Context& context, TensorView y, Store store) const;
  void BackwardBias(Context& context, ConstTensorView dy) const;

 private:
  struct Bias {
    std::once_flag once;
    Tensor values;
  };
  const Part& Only() const;
  void FindWhole();
  void FindRows();
  void BackwardRows(Context& context, ConstTensorView x,
                    ConstTensorView dy) const;
  // The forward and the first half of the backward, once args has all but B
  // and the bias.
  void Run(Context& context, MatmulArgs args, Store store,
           Epilogue epilogue) const;
  void RunBackward(Context& context, MatmulArgs args, Store store,
                   Epilogue epilogue) const;
  void JoinBias(Context& context, const TensorView& to) const;
  // All parts as one matrix of a type in the layer's layout: where the only one
  // lies, or put together in `copy`.
  ConstTensorView WholeWeight(Context& context, DType type, Temp& copy) const;
  Shape WholeShape() const;
  // Where a part's weight stands in a whole one.
  template <typename View>
  View PartOf(View whole, int64_t begin, int64_t outs) const;
  Operand operand() const {
    return layout_ == WeightLayout::kOutIn ? Operand::kTransposed
                                           : Operand::kPlain;
  }
  int OutAxis() const { return layout_ == WeightLayout::kOutIn ? 0 : 1; }
  int64_t Outs(const Part& part) const {
    return part.weight.value.shape[OutAxis()];
  }
  template <typename Use>
  void ForOutputs(int64_t begin, int64_t end, const Use& use) const;

  std::vector<Part> parts_;
  WeightLayout layout_ = WeightLayout::kOutIn;
  int64_t in_ = 0;
  int64_t out_ = 0;
  bool has_bias_ = false;
  bool aligned_ = true;  // all weights: they may be read where they lie
  std::vector<ConstTensorView> values_;  // of the parts' weights, to be read
  // All parts as one, where they lie end to end on a device: there a call costs
  // more than it does.
  ConstTensorView whole_;
  TensorView whole_gradient_;
  std::shared_ptr<const StoredRows> rows_;  // null: no such weights
  std::shared_ptr<PreparedWeights> weights_;
  std::shared_ptr<Bias> bias_;
};

}  // namespace headwise
