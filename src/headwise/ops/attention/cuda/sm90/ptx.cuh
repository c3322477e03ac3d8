// Hopper's barriers, copy engine and register moves as functions: raw PTX, one
// instruction each.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace headwise::attention_cuda::sm90 {

__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void BarrierInit(uint64_t* barrier, int arrivals) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(arrivals));
}

__device__ inline void BarrierArrive(uint64_t* barrier) {
  asm volatile(
      "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier))
      : "memory");
}

__device__ inline void BarrierExpect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ inline void BarrierWait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n"
      "}\n" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// Makes initialised barriers visible to the copy engine.
__device__ inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Orders ordinary writes to shared memory before the matrix unit's reads.
__device__ inline void FenceForProducts() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Four 8 × 8 blocks of 16-bit elements to shared memory, the reverse of
// LoadBlocks: lane l gives the address of row l % 8 of block l / 8.
__device__ inline void StoreBlocks(const uint32_t (&r)[4], uint32_t address) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
          address),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

// A named barrier among `threads` threads; Arrive does not wait.
__device__ inline void NamedSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void NamedArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Lets the next kernel be launched before this one ends, and waits in it for
// this one's results.
__device__ inline void LetNextLaunch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ inline void WaitForLaunchBefore() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

template <int kRegisters>
__device__ inline void ReleaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Copies the box at (dim, head, row, batch) of a tensor into shared memory and
// counts its bytes on the barrier.
__device__ inline void LoadBox(const CUtensorMap& map, void* to,
                               uint64_t* barrier, int dim, int head, int row,
                               int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
          SharedAddress(to)),
      "l"(&map), "r"(SharedAddress(barrier)), "r"(dim), "r"(head), "r"(row),
      "r"(batch)
      : "memory");
}

// Copies bytes, a multiple of 16 and aligned so.
__device__ inline void LoadBytes(void* to, const void* from, int bytes,
                                 uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

__device__ inline void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace headwise::attention_cuda::sm90
