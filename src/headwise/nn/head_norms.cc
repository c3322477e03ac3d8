// Door: head_norms.h.
#include "headwise/nn/head_norms.h"

#include <algorithm>
#include <utility>

#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// x [T, H, D] as [T, H·D].
template <typename View>
View SideBySideHeads(View x) {
  x.shape[1] *= x.shape[2];
  x.stride[1] = 1;
  x.shape[2] = x.stride[2] = 0;
  x.rank = 2;
  return x;
}

}  // namespace

HeadNorms::HeadNorms(Norm norm) {
  if (norm) norms_.push_back(std::move(norm));
}

bool HeadNorms::Fits(int64_t heads, int64_t head_dim) const {
  if (norms_.empty() || IsAlike(head_dim)) return true;
  if (norms_.size() == 1) return norms_[0].width() == heads * head_dim;
  return std::ssize(norms_) == heads &&
         std::ranges::all_of(norms_, [&](const Norm& norm) {
           return norm.width() == head_dim;
         });
}

bool HeadNorms::IsAlike(int64_t head_dim) const {
  return norms_.size() == 1 && norms_[0].width() == head_dim;
}

Tensor HeadNorms::Gain(Context& context, int64_t head, int64_t head_dim) const {
  if (norms_.size() > 1) return norms_[head].Gain(context);
  Tensor all = norms_[0].Gain(context);
  if (IsAlike(head_dim)) return all;
  Tensor gain(DType::kF32, {head_dim});
  Context host({.threads = 1});
  Copy(host, Slice(all.view(), 0, head * head_dim, (head + 1) * head_dim),
       gain.view());
  return gain;
}

void HeadNorms::Forward(Context& context, TensorView x,
                        HeadNormsSaved* saved) const {
  if (saved != nullptr) *saved = HeadNormsSaved(norms_.size());
  const auto kept = [&](size_t i) {
    return saved != nullptr ? &(*saved)[i] : nullptr;
  };
  if (norms_.size() > 1) {
    for (size_t h = 0; h < norms_.size(); ++h) {
      const TensorView one = At(x, 1, static_cast<int64_t>(h));
      norms_[h].Forward(context, one, one, kept(h));
    }
  } else if (IsAlike(x.shape[2])) {
    norms_[0].ForwardHeads(context, x, kept(0));
  } else {
    const TensorView all = SideBySideHeads(x);
    norms_[0].Forward(context, all, all, kept(0));
  }
}

void HeadNorms::Backward(Context& context, ConstTensorView x,
                         const HeadNormsSaved& saved, TensorView dx) const {
  if (norms_.size() > 1) {
    for (size_t h = 0; h < norms_.size(); ++h) {
      const auto head = static_cast<int64_t>(h);
      const TensorView one = At(dx, 1, head);
      norms_[h].Backward(context, At(x, 1, head), saved[h], one, one);
    }
  } else if (IsAlike(x.shape[2])) {
    norms_[0].BackwardHeads(context, x, saved[0], dx);
  } else {
    const TensorView all = SideBySideHeads(dx);
    norms_[0].Backward(context, SideBySideHeads(x), saved[0], all, all);
  }
}

}  // namespace headwise
