// cuda: the entry, and the forward. Door: ../implementation.h.
#include <limits>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/embedding/cuda/backward.h"
#include "headwise/ops/embedding/implementation.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename From, typename To>
struct Params {
  bool add;
  const From* table;
  int64_t table_rows, table_stride;
  cuda::DeviceIds ids;
  To* out;
  int64_t out_stride;
};

template <typename From, typename To>
__global__ void ForwardKernel(Params<From, To> p, cuda::RowShare share) {
  share.ForRows([&](int64_t n, int64_t first, int64_t step) {
    const int64_t id = p.ids.At(n);
    // An id outside the table shows as NaN: nobody waits here to tell the host.
    const bool is_known = id >= 0 && id < p.table_rows;
    const From* from = p.table + (is_known ? id : 0) * p.table_stride;
    To* out = p.out + n * p.out_stride;
    const auto take = [&](int64_t i, auto count) {
      constexpr int kCount = decltype(count)::value;
      float v[kCount], before[kCount];
      cuda::Load(from + i, v);
      if (p.add) cuda::Load(out + i, before);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        if (p.add) v[j] += before[j];
        if (!is_known) v[j] = kNaN;
      }
      cuda::Store(v, out + i);
    };
    cuda::ForPacks<cuda::kPack<From, To>>(first, step, share.width, take, from,
                                          out);
  });
}

void Forward(Context& context, const EmbeddingCall& call) {
  const auto& [table, ids, out] = call.args;
  const int64_t count = ids.shape[0], width = table.shape[1];
  // (Without rows there is nothing that an id could name.)
  if (count == 0 || width == 0 || table.shape[0] == 0) return;
  cuda::WithFloatType(call.args.table.type, [&](auto from) {
    cuda::WithFloatType(call.args.out.type, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const EmbeddingArgs& a = call.args;
      const Params<From, To> p = {
          .add = call.problem.write == EmbeddingWrite::kAdd,
          .table = a.table.Raw<From>(),
          .table_rows = a.table.shape[0],
          .table_stride = a.table.stride[0],
          .ids = cuda::DeviceIds(a.ids),
          .out = a.out.Raw<To>(),
          .out_stride = a.out.stride[0]};
      const cuda::RowShare share(count, width, cuda::kPack<From, To>);
      cuda::Launch(context, "embedding", ForwardKernel<From, To>, share.Grid(),
                   share.threads, p, share);
    });
  });
}

Reason WhyNot(const EmbeddingCall& call) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const EmbeddingArgs& a = call.args;
  if (a.ids && !a.ids.device.is_cuda()) return "runs on CUDA only";
  if (call.grads == nullptr) {
    if (!IsAligned(a.table)) {
      return "takes tables at multiples of their elements' size";
    }
    return cuda::WhyNotFloats({a.table, a.out});
  }
  if (a.ids.shape[0] >= kMost || call.grads->dtable.shape[0] >= kMost) {
    return "takes less than 2^31 ids and rows in the backward";
  }
  return cuda::WhyNotFloats({call.grads->dout, call.grads->dtable});
}

void Run(Context& context, const EmbeddingCall& call) {
  call.grads == nullptr
      ? Forward(context, call)
      : cuda::EmbeddingBackward(context, call.args.ids, *call.grads);
}

}  // namespace

const Implementation<EmbeddingCall> kEmbeddingCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
