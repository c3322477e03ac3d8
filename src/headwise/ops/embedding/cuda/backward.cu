// The backward: places are sorted by their ids, which keeps equal ids in order;
// blocks then walk tiles of the sorted places. What lies in one tile is added
// to the table at once, what crosses tiles in a second pass: no atomics, the
// same sums each time, and an id that fills the whole input is still many
// blocks' work. Door: backward.h.
#include "headwise/ops/embedding/cuda/backward.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/tensor/temp.h"

namespace headwise::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;  // places

// keys: ids, or `rows` for what is outside the table; places: 0, 1, …
__global__ void KeysKernel(DeviceIds ids, int64_t count, int64_t rows,
                           uint32_t* keys, uint32_t* places) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= count) return;
  const int64_t id = ids.At(n);
  keys[n] = static_cast<uint32_t>(id >= 0 && id < rows ? id : rows);
  places[n] = static_cast<uint32_t>(n);
}

struct Params {
  int64_t count;  // of places, sorted by key
  int64_t rows, width;
  const uint32_t *keys, *places;
  float* dtable;
  int64_t dtable_stride;
  // [tiles, 2, width]: of the id that a tile has in common with the tile before
  // it, and of the one that begins in it and goes on.
  float* crossing;
  unsigned columns;  // blocks side by side
};

// A block's tile, and the first column of a thread.
struct Place {
  int64_t tile, column;
};
template <int kCount>
__device__ Place PlaceOf(const Params& p) {
  const unsigned side = blockIdx.x % p.columns;
  return {blockIdx.x / p.columns,
          (static_cast<int64_t>(side) * blockDim.x + threadIdx.x) * kCount};
}

template <int kCount>
__device__ void AddToRow(const Params& p, uint32_t row, int64_t column,
                         const float (&sum)[kCount]) {
  float* to = p.dtable + row * p.dtable_stride + column;
  float value[kCount];
  Load(to, value);
#pragma unroll
  for (int j = 0; j < kCount; ++j) value[j] += sum[j];
  Store(value, to);
}

template <int kCount, typename T>
__global__ void TileKernel(Params p, const T* dout, int64_t dout_stride) {
  const auto [tile, column] = PlaceOf<kCount>(p);
  if (column >= p.width) return;
  const int64_t begin = tile * kTile, end = min(begin + kTile, p.count);
  const bool continues = begin > 0 && p.keys[begin - 1] == p.keys[begin];
  float sum[kCount] = {};
  bool is_first = true;  // of the tile's ids
  for (int64_t n = begin; n < end; ++n) {
    const uint32_t key = p.keys[n];
    if (key == p.rows) return;  // these come last
    float value[kCount];
    Load(dout + p.places[n] * dout_stride + column, value);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] += value[j];
    const bool goes_on = n + 1 < p.count && p.keys[n + 1] == key;
    if (goes_on && n + 1 < end) continue;
    const bool from_before = is_first && continues;
    if (from_before || goes_on) {
      const int64_t slot = 2 * tile + (from_before ? 0 : 1);
      Store(sum, p.crossing + slot * p.width + column);
    } else {
      AddToRow(p, key, column, sum);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] = 0;
    is_first = false;
  }
}

// Of each tile: the id that begins in it and goes on in the next.
template <int kCount>
__global__ void CrossingKernel(Params p) {
  const auto [tile, column] = PlaceOf<kCount>(p);
  if (column >= p.width) return;
  const int64_t begin = tile * kTile, end = begin + kTile;
  if (end >= p.count) return;
  const uint32_t key = p.keys[end - 1];
  if (key == p.rows || p.keys[end] != key) return;
  if (begin > 0 && p.keys[begin - 1] == key) return;  // begins before
  float sum[kCount];
  Load(p.crossing + (2 * tile + 1) * p.width + column, sum);
  for (int64_t n = end; n < p.count && p.keys[n] == key; n += kTile) {
    float value[kCount];
    Load(p.crossing + 2 * (n / kTile) * p.width + column, value);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] += value[j];
  }
  AddToRow(p, key, column, sum);
}

// places of `ids` sorted by key; memory [2, 2, count] takes both, before and
// after.
void Sort(Context& context, const ConstTensorView& ids, int64_t rows,
          uint32_t* memory) {
  const int64_t count = ids.shape[0];
  uint32_t *keys = memory, *places = memory + count;
  Launch(context, "embedding keys", KeysKernel,
         dim3(static_cast<unsigned>(CeilDiv(count, kThreads))), kThreads,
         DeviceIds(ids), count, rows, keys, places);
  const int bits = std::bit_width(static_cast<uint64_t>(rows));
  size_t bytes = 0;
  const auto sort = [&](void* scratch) {
    CheckCuda(cub::DeviceRadixSort::SortPairs(
                  scratch, bytes, keys, memory + 2 * count, places,
                  memory + 3 * count, static_cast<int>(count), 0, bits,
                  StreamOf(context)),
              "embedding sort");
  };
  sort(nullptr);  // says how much it needs
  const Temp scratch(context, DType::kU8, {static_cast<int64_t>(bytes)});
  sort(scratch.view().data);
}

template <int kCount, typename T>
void AddTiles(Context& context, Params p, const ConstTensorView& dout) {
  const int64_t threads = std::min<int64_t>(
      kThreads, CeilDiv(CeilDiv(p.width, kCount), kWarp) * kWarp);
  const int64_t tiles = CeilDiv(p.count, kTile);
  p.columns = static_cast<unsigned>(CeilDiv(p.width, kCount * threads));
  const Temp crossing(context, DType::kF32, {tiles, 2, p.width});
  p.crossing = crossing.view().Raw<float>();
  const dim3 grid(static_cast<unsigned>(tiles * p.columns));
  Launch(context, "embedding backward", TileKernel<kCount, T>, grid,
         static_cast<int>(threads), p, dout.Raw<T>(), dout.stride[0]);
  Launch(context, "embedding backward", CrossingKernel<kCount>, grid,
         static_cast<int>(threads), p);
}

}  // namespace

void EmbeddingBackward(Context& context, const ConstTensorView& ids,
                       const EmbeddingGrads& grads) {
  const auto& [dout, dtable] = grads;
  const int64_t count = ids.shape[0], width = dtable.shape[1];
  if (count == 0 || width == 0 || dtable.shape[0] == 0) return;
  const Temp memory(context, DType::kI32, {2, 2, count});
  auto* sorted = memory.view().Raw<uint32_t>();
  Sort(context, ids, dtable.shape[0], sorted);
  const Params p = {.count = count,
                    .rows = dtable.shape[0],
                    .width = width,
                    .keys = sorted + 2 * count,
                    .places = sorted + 3 * count,
                    .dtable = dtable.Raw<float>(),
                    .dtable_stride = dtable.stride[0],
                    .crossing = nullptr,
                    .columns = 1};
  constexpr int kCount = kPack<float>;
  const bool wide = width % kCount == 0 && HasPacks(grads.dout, kCount) &&
                    HasPacks(grads.dtable, kCount);
  WithFloatType(grads.dout.type, [&](auto element) {
    using T = decltype(element);
    wide ? AddTiles<kCount, T>(context, p, grads.dout)
         : AddTiles<1, T>(context, p, grads.dout);
  });
}

}  // namespace headwise::cuda
