// Warpgroup matrix products: D (64 × N, f32, in registers) of A and B, with B
// in shared memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "headwise/ops/attention/cuda/sm90/ptx.cuh"

namespace headwise::attention_cuda::sm90 {

// Everything before is in registers and shared memory before the products read
// them.
__device__ inline void ProductFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void ProductCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending committed groups are still running.
template <int kPending>
__device__ inline void ProductWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving reads or writes of an accumulator across the
// point where the hardware owns it.
template <int kCount>
__device__ inline void Pin(float (&r)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(r[i])::"memory");
}

// A matrix in shared memory in rows of 128 bytes, swizzled by the copy engine.
// Row groups of 8 are 1024 bytes apart. `lead` is the distance in bytes between
// column blocks of 64 elements, read only for a transposed operand. `skip`
// bytes are added to the address. Only the low word varies, by an addition that
// comes last: of the products of a tile each costs one, in uniform registers.
__device__ inline uint64_t Descriptor(uint32_t address, int lead, int skip) {
  const uint32_t first =
      (static_cast<uint32_t>(lead >> 4) << 16) + (address >> 4);
  const uint32_t low = first + (skip >> 4);
  const uint32_t high = (1u << 30) | (1024 >> 4);
  uint64_t descriptor;
  asm("mov.b64 %0, {%1, %2};" : "=l"(descriptor) : "r"(low), "r"(high));
  return descriptor;
}

// The instruction names every accumulator register.
#define HEADWISE_NAMES_32                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, " \
  "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
  "%26, %27, %28, %29, %30, %31"
#define HEADWISE_NAMES_64                                        \
  HEADWISE_NAMES_32                                              \
  ", "                                                           \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
  "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define HEADWISE_NAMES_36 HEADWISE_NAMES_32 ", %32, %33, %34, %35"
#define HEADWISE_NAMES_68 HEADWISE_NAMES_64 ", %64, %65, %66, %67"
#define HEADWISE_4(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define HEADWISE_16(d, i)                                       \
  HEADWISE_4(d, i), HEADWISE_4(d, i + 4), HEADWISE_4(d, i + 8), \
      HEADWISE_4(d, i + 12)
#define HEADWISE_32(d) HEADWISE_16(d, 0), HEADWISE_16(d, 16)
#define HEADWISE_64(d) HEADWISE_32(d), HEADWISE_16(d, 32), HEADWISE_16(d, 48)
#define HEADWISE_36(d, x) HEADWISE_32(d), HEADWISE_4(x, 0)
#define HEADWISE_68(d, x) HEADWISE_64(d), HEADWISE_4(x, 0)

// D[64 × N] = A[64 × 16] · B[N × 16]ᵀ (+ D), both rows of shared memory; along
// "1": B[16 × N], its rows along N.
#define HEADWISE_FROM_SHARED(n, names, values, a_b, last, type, along)        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " last                       \
               ", 0;\n"                                                       \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type \
               " {" names "}, " a_b ", p, 1, 1, 0, " along ";\n}\n"           \
               : values                                                       \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))
template <class T>
__device__ inline void ProductFromShared(float (&d)[32], uint64_t a, uint64_t b,
                                         bool add) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    HEADWISE_FROM_SHARED("64", HEADWISE_NAMES_32, HEADWISE_32(d), "%32, %33",
                         "%34", "bf16", "0");
  } else {
    HEADWISE_FROM_SHARED("64", HEADWISE_NAMES_32, HEADWISE_32(d), "%32, %33",
                         "%34", "f16", "0");
  }
}
template <class T>
__device__ inline void ProductFromShared(float (&d)[64], uint64_t a, uint64_t b,
                                         bool add) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    HEADWISE_FROM_SHARED("128", HEADWISE_NAMES_64, HEADWISE_64(d), "%64, %65",
                         "%66", "bf16", "0");
  } else {
    HEADWISE_FROM_SHARED("128", HEADWISE_NAMES_64, HEADWISE_64(d), "%64, %65",
                         "%66", "f16", "0");
  }
}

// D[64 × 128] += A[64 × 16] · B[16 × 128], bf16.
__device__ inline void ProductOfStored(float (&d)[64], uint64_t a, uint64_t b) {
  constexpr bool add = true;
  HEADWISE_FROM_SHARED("128", HEADWISE_NAMES_64, HEADWISE_64(d), "%64, %65",
                       "%66", "bf16", "1");
}

// D[64 × N] += A[64 × 16] · B[16 × N], A in registers, B rows of shared memory
// along N.
#define HEADWISE_FROM_REGISTERS(n, names, values, first, last, type)          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type \
               " {" names "}, {" first "}, " last ", 1, 1, 1, 1;\n"           \
               : values                                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <class T>
__device__ inline void ProductFromRegisters(float (&d)[32],
                                            const uint32_t (&a)[4],
                                            uint64_t b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    HEADWISE_FROM_REGISTERS("64", HEADWISE_NAMES_32, HEADWISE_32(d),
                            "%32, %33, %34, %35", "%36", "bf16");
  } else {
    HEADWISE_FROM_REGISTERS("64", HEADWISE_NAMES_32, HEADWISE_32(d),
                            "%32, %33, %34, %35", "%36", "f16");
  }
}
template <class T>
__device__ inline void ProductFromRegisters(float (&d)[64],
                                            const uint32_t (&a)[4],
                                            uint64_t b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    HEADWISE_FROM_REGISTERS("128", HEADWISE_NAMES_64, HEADWISE_64(d),
                            "%64, %65, %66, %67", "%68", "bf16");
  } else {
    HEADWISE_FROM_REGISTERS("128", HEADWISE_NAMES_64, HEADWISE_64(d),
                            "%64, %65, %66, %67", "%68", "f16");
  }
}

// With 8 columns more, in x.
template <class T>
__device__ inline void ProductFromRegisters(float (&d)[32], float (&x)[4],
                                            const uint32_t (&a)[4],
                                            uint64_t b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    HEADWISE_FROM_REGISTERS("72", HEADWISE_NAMES_36, HEADWISE_36(d, x),
                            "%36, %37, %38, %39", "%40", "bf16");
  } else {
    HEADWISE_FROM_REGISTERS("72", HEADWISE_NAMES_36, HEADWISE_36(d, x),
                            "%36, %37, %38, %39", "%40", "f16");
  }
}
template <class T>
__device__ inline void ProductFromRegisters(float (&d)[64], float (&x)[4],
                                            const uint32_t (&a)[4],
                                            uint64_t b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    HEADWISE_FROM_REGISTERS("136", HEADWISE_NAMES_68, HEADWISE_68(d, x),
                            "%68, %69, %70, %71", "%72", "bf16");
  } else {
    HEADWISE_FROM_REGISTERS("136", HEADWISE_NAMES_68, HEADWISE_68(d, x),
                            "%68, %69, %70, %71", "%72", "f16");
  }
}

#undef HEADWISE_FROM_REGISTERS
#undef HEADWISE_FROM_SHARED
#undef HEADWISE_68
#undef HEADWISE_36
#undef HEADWISE_64
#undef HEADWISE_32
#undef HEADWISE_16
#undef HEADWISE_4
#undef HEADWISE_NAMES_68
#undef HEADWISE_NAMES_36
#undef HEADWISE_NAMES_64
#undef HEADWISE_NAMES_32

}  // namespace headwise::attention_cuda::sm90
