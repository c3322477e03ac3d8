// cuda: a block a head and sequence. Masses are added as whole numbers, whose
// sum knows no order. Door: ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/head_sinks/implementation.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;
// Units of a mass of 1; a sum over 2^23 rows fits.
constexpr double kUnits = 1099511627776.0;  // 2^40

struct Params {
  const float* kept_max;
  const int32_t* kept_argmax;
  const float* weights;
  const int32_t *seen, *query_starts, *key_starts;
  int64_t rows, keys, room;
  unsigned long long* mass;  // [H, S], zeros before
  int32_t *found, *count;
};

// grid: (H, B).
__global__ __launch_bounds__(kThreads) void FindKernel(const Params p) {
  const int64_t h = blockIdx.x, b = blockIdx.y;
  const int32_t first_key = p.key_starts[b];
  const int32_t keys = p.key_starts[b + 1] - first_key;
  unsigned long long* mass = p.mass + h * p.keys + first_key;
  const int32_t end = p.query_starts[b + 1];
  for (int32_t t = p.query_starts[b] + threadIdx.x; t < end; t += kThreads) {
    const int64_t at = h * p.rows + t;
    const int32_t j = p.kept_argmax[at];
    const float share = p.kept_max[at];
    if (p.weights[t] == 0 || j < 0 || j >= keys) continue;
    if (!(share > 0) || !(share <= 2)) continue;  // no number
    atomicAdd(mass + j, static_cast<unsigned long long>(kUnits * share));
  }
  __syncthreads();
  for (int32_t j = threadIdx.x; j < keys; j += kThreads) {
    const int32_t seen = p.seen[first_key + j];
    if (seen <= 0) continue;
    // Past the cache that the additions have passed by.
    const double sum = static_cast<double>(__ldcg(mass + j)) / kUnits;
    if (!(sum > kCandidateMass * seen)) continue;
    const int place = atomicAdd(p.count, 1);
    if (place >= p.room) continue;
    p.found[3 * place] = static_cast<int32_t>(h);
    p.found[3 * place + 1] = static_cast<int32_t>(b);
    p.found[3 * place + 2] = j;
  }
}

// A grid has at most 65535 blocks in its second direction.
Reason WhyNot(const HeadSinksCall& call) {
  if (!call.args.kept_max.device.is_cuda()) return "runs on CUDA only";
  return call.args.query_starts.shape[0] <= 65536 ? ""
                                                  : "at most 65535 sequences";
}

void Run(Context& context, const HeadSinksCall& call) {
  const HeadSinksArgs& a = call.args;
  const int64_t heads = a.kept_max.shape[1], keys = a.seen.shape[0];
  const int64_t sequences = a.query_starts.shape[0] - 1;
  CudaBackend& backend = CudaOf(context);
  backend.Zero(a.count.data, sizeof(int32_t));
  if (heads * sequences * keys == 0) return;
  const Temp mass(context, DType::kI64, {heads, keys});
  backend.Zero(mass.view().data, static_cast<size_t>(heads * keys) * 8);
  const Params params = {a.kept_max.Raw<float>(),
                         a.kept_argmax.Raw<int32_t>(),
                         a.weights.Raw<float>(),
                         a.seen.Raw<int32_t>(),
                         a.query_starts.Raw<int32_t>(),
                         a.key_starts.Raw<int32_t>(),
                         a.kept_max.shape[2],
                         keys,
                         a.found.shape[0],
                         static_cast<unsigned long long*>(mass.view().data),
                         a.found.Raw<int32_t>(),
                         a.count.Raw<int32_t>()};
  cuda::Launch(
      context, "head sinks", FindKernel,
      dim3(static_cast<unsigned>(heads), static_cast<unsigned>(sequences)),
      kThreads, params);
}

}  // namespace

const Implementation<HeadSinksCall> kHeadSinksCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
