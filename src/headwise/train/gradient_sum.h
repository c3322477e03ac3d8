// The gradients of a step, summed over its parts and over all ranks, bit for
// bit the same on any number of them (gradient_tree.h). Ranks on the CPU add
// them up bucket by bucket under the backward of their last part, in a thread
// of their own. By NCCL GPUs add them up after it, in an order of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/dist/device_group.h"
#include "headwise/dist/group.h"
#include "headwise/model/model.h"
#include "headwise/model/parameters.h"
#include "headwise/tensor/temp.h"
#include "headwise/train/config.h"
#include "headwise/train/gradient_buckets.h"
#include "headwise/train/gradient_tree.h"
#include "headwise/train/timeline.h"

namespace headwise {

struct GradientSharing {
  dist::Group* group = nullptr;  // null: this process alone
  int64_t parts = 1;             // of a step
  GradientReduction reduce = GradientReduction::kTree;
  int64_t bucket = 1;            // values that travel together
  Timeline* timeline = nullptr;  // null: nobody asks
};

// Borrows all it is given. While it sums, nobody else calls the group.
class GradientSum {
 public:
  // The model was built from the store. Throws as GradientTree does and, where
  // NCCL is asked for, as MakeNcclGroup does.
  GradientSum(Context& context, const Model& model, ParameterStore& store,
              const GradientSharing& sharing);

  const GradientTree& tree() const { return tree_; }

  // Calls `differentiate` for each part of this rank; it adds the part's
  // gradients to those of the store, which are 0. done: to be told of the parts
  // of the model by the last backward of this part; null: nobody asks. In the
  // end every rank's gradients are those of all parts.
  using Differentiate = std::function<void(int64_t part, const PartDone* done)>;
  void Sum(const Differentiate& differentiate);

 private:
  using Piece = GradientBucket::Piece;
  using Kept = std::vector<Temp>;  // one a buffer of the store

  TensorView Gradient(const Piece& piece) const;
  void Keep(int64_t number);
  void AddKept(int64_t number);
  // Everything that is left to do of one bucket, or all of them in turn.
  void SumUp(Context& context, size_t bucket);
  void SpreadOut(Context& context, size_t bucket);
  void FinishBuckets(Context& context,
                     const std::function<bool(size_t)>& wait_for);
  void SumInTree(const Differentiate& differentiate);
  void SumUnderBackward(const Differentiate& differentiate);
  void SumOnDevices(const Differentiate& differentiate);

  Context& context_;
  ParameterStore& store_;
  GradientSharing sharing_;
  GradientTree tree_;
  GradientBuckets buckets_;
  std::map<int64_t, Kept> kept_;
  std::optional<Context> beside_;               // of the thread that reduces
  std::unique_ptr<dist::DeviceGroup> devices_;  // null: in the tree
};

}  // namespace headwise
