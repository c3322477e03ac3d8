// Door: gradient_tree.h.
#include "headwise/train/gradient_tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "headwise/dist/pack.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// Gradients travel in buckets: one is added while the next arrives, and no rank
// holds more than that besides its own.
constexpr int64_t kBucket = int64_t{1} << 20;

// Calls `use` with every piece of the gradients, f32 [N], N ≤ kBucket.
template <typename Use>
void ForBuckets(ParameterStore& store, Use&& use) {
  for (ParameterStore::Buffer& buffer : store.buffers()) {
    const int64_t size = buffer.gradient.size();
    for (int64_t begin = 0; begin < size; begin += kBucket) {
      use(Slice(buffer.gradient.view(), 0, begin,
                std::min(size, begin + kBucket)));
    }
  }
}

void Post(Context& context, dist::Group& group, int to, ParameterStore& store) {
  ForBuckets(store, [&](const TensorView& piece) {
    const std::vector<float> values = ToVector<float>(context, piece);
    group.Post(to, dist::Channel::kCollective,
               std::string(reinterpret_cast<const char*>(values.data()),
                           values.size() * sizeof(float)));
  });
}

// Adds what Post sent.
void AddFrom(Context& context, dist::Group& group, int from,
             ParameterStore& store) {
  ForBuckets(store, [&](const TensorView& piece) {
    const std::string bytes = group.Take(from, dist::Channel::kCollective);
    const size_t wanted = static_cast<size_t>(piece.size()) * sizeof(float);
    if (bytes.size() != wanted) {
      throw dist::UnexpectedMessage(wanted, bytes.size());
    }
    const ConstTensorView values(bytes.data(), DType::kF32, {piece.size()});
    Temp copy;
    AddTo(context, OnDevice(context, values, copy), piece);
    if (!context.device().is_cpu()) context.Synchronize();
  });
}

// Rank 0's on all.
void Spread(Context& context, dist::Group& group, ParameterStore& store) {
  ForBuckets(store, [&](const TensorView& piece) {
    if (piece.device.is_cpu()) {
      group.Broadcast(piece);
      return;
    }
    Tensor here = ToHost(context, piece);
    group.Broadcast(here.view());
    Copy(context, std::as_const(here).view(), piece);
    context.Synchronize();
  });
}

}  // namespace

GradientTree::GradientTree(dist::Group* group, int64_t parts)
    : group_(group), parts_(parts) {
  if (group_ == nullptr) return;
  rank_ = group_->rank();
  ranks_ = group_->size();
  if (parts_ >= ranks_) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"training",
               fmt::format("a batch of at least {} parts, one a rank", ranks_),
               fmt::format("parts {}", parts_),
               fmt::format("set parts to {} or a multiple of it; runs of equal "
                           "parts are equal on any number of ranks",
                           ranks_)});
}

int GradientTree::Owner(int64_t part) const {
  int rank = 0;
  while (part >= Begin(rank + 1)) ++rank;
  return rank;
}

void GradientTree::Sum(Context& context, ParameterStore& store,
                       const Differentiate& differentiate) const {
  SumNode(context, store, 0, parts_, differentiate);
  if (ranks_ > 1) Spread(context, *group_, store);
}

void GradientTree::SumNode(Context& context, ParameterStore& store, int64_t low,
                           int64_t high,
                           const Differentiate& differentiate) const {
  if (end() <= low || begin() >= high) return;
  if (high - low == 1) {
    store.ClearGradients(context);
    differentiate(low);
    return;
  }
  const int64_t middle = (low + high) / 2;
  const int left = Owner(low), right = Owner(middle);
  SumNode(context, store, low, middle, differentiate);
  std::vector<Temp> sums;  // of the left half, where the right is made here too
  if (left == rank_ && right == rank_) {
    for (ParameterStore::Buffer& buffer : store.buffers()) {
      sums.emplace_back();
      if (buffer.gradient.size() == 0) continue;
      sums.back() = CopyOf(context, std::as_const(buffer.gradient).view());
    }
  }
  SumNode(context, store, middle, high, differentiate);
  for (size_t i = 0; i < sums.size(); ++i) {
    Tensor& gradient = store.buffers()[i].gradient;
    if (gradient.size() > 0) AddTo(context, sums[i].view(), gradient.view());
  }
  if (left == right) return;
  if (right == rank_) Post(context, *group_, left, store);
  if (left == rank_) AddFrom(context, *group_, right, store);
}

void GradientTree::AllReduce(std::span<int64_t> values) const {
  if (group_ != nullptr) group_->AllReduce(values);
}

void GradientTree::AllReduce(std::span<double> values) const {
  if (group_ != nullptr) group_->AllReduce(values);
}

}  // namespace headwise
