// OpenBLAS: its matrix product, and attention composed of two of them with a
// softmax between. Door: peers.h.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/peers.h"
#include "bench/softmax.h"
#include "headwise/backend/cpu/thread_pool.h"

namespace headwise::bench {
namespace {

// cblas.h's values.
constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;

struct OpenBlas {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k,
                float alpha, const float* a, int lda, const float* b, int ldb,
                float beta, float* c, int ldc) = nullptr;
  void (*set_threads)(int threads) = nullptr;
  const char* (*config)() = nullptr;

  explicit operator bool() const { return sgemm && set_threads && config; }
};

OpenBlas Load() {
  OpenBlas blas;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    // Never closed: its threads live as long as the program.
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    auto find = [handle](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(handle, symbol));
    };
    find(blas.sgemm, "cblas_sgemm");
    find(blas.set_threads, "openblas_set_num_threads");
    find(blas.config, "openblas_get_config");
    break;
  }
  return blas;
}

bool LoadOrNote(OpenBlas& blas, Peers& peers) {
  blas = Load();
  if (!blas) {
    peers.notes.push_back(
        "peer openblas: not installed; apt install libopenblas0-pthread");
    return false;
  }
  peers.versions.push_back(blas.config());
  return true;
}

// Scores of this many queries at a time: [rows, key_len] floats stay in L2 at
// 2048 keys, and a causal block skips the keys after its last query.
constexpr int64_t kQueryRows = 128;

struct Composed {
  OpenBlas blas;
  const AttentionData& data;
  Tensor out;     // [B, M, H, D]
  Tensor scores;  // [threads, kQueryRows, N]
  ThreadPool pool;

  Composed(OpenBlas loaded, const AttentionData& inputs, int threads)
      : blas(loaded), data(inputs), pool(threads) {
    const AttentionProblem& p = data.problem;
    out = Tensor(DType::kF32, {p.batch, p.query_len, p.heads, p.head_dim});
    scores = Tensor(DType::kF32, {threads, kQueryRows, p.key_len});
  }

  void Run() {
    const AttentionProblem& p = data.problem;
    const int64_t blocks = (p.query_len + kQueryRows - 1) / kQueryRows;
    blas.set_threads(1);
    pool.ParallelFor(p.batch * p.heads * blocks, [&](int64_t task, int worker) {
      const int64_t head = task / blocks;
      // Longest first under a causal mask.
      const int64_t block = blocks - 1 - task % blocks;
      Block(head / p.heads, head % p.heads, block, worker);
    });
  }

  void Block(int64_t b, int64_t h, int64_t block, int worker) {
    const AttentionProblem& p = data.problem;
    const int64_t g = h / (p.heads / p.kv_heads);
    const int64_t first = block * kQueryRows;
    const int rows =
        static_cast<int>(std::min(kQueryRows, p.query_len - first));
    const bool causal = p.mask.after == 0;
    auto visible = [&](int64_t i) {
      return causal ? std::clamp<int64_t>(i + p.mask.query_offset + 1, 0,
                                          p.key_len)
                    : p.key_len;
    };
    const int keys = static_cast<int>(visible(first + rows - 1));
    const int dim = static_cast<int>(p.head_dim);
    const int q_stride = static_cast<int>(p.heads * p.head_dim);
    const int kv_stride = static_cast<int>(p.kv_heads * p.head_dim);
    const int ld = static_cast<int>(p.key_len);
    const float scale =
        p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<float>(dim));
    const int64_t query = (b * p.query_len + first) * q_stride + h * dim;
    const int64_t key = b * p.key_len * kv_stride + g * dim;
    float* s = scores.As<float>() + worker * kQueryRows * p.key_len;
    blas.sgemm(kRowMajor, kPlain, kTransposed, rows, keys, dim, scale,
               data.q.As<float>() + query, q_stride, data.k.As<float>() + key,
               kv_stride, 0, s, ld);
    for (int i = 0; i < rows; ++i) {
      SoftmaxRow(s + int64_t{i} * ld, visible(first + i), keys);
    }
    blas.sgemm(kRowMajor, kPlain, kPlain, rows, dim, keys, 1, s, ld,
               data.v.As<float>() + key, kv_stride, 0, out.As<float>() + query,
               q_stride);
  }
};

std::string WhyNotOpenBlas(const AttentionRequest& request) {
  const AttentionProblem& p = request.data.problem;
  if (request.row.pass != "forward") return "composed for the forward only";
  if (p.type != DType::kF32) return "f32 only";
  if (p.bias != AttentionBias::kNone || p.soft_cap != 0 || p.packed ||
      p.mask.before != kUnlimited ||
      (p.mask.after != 0 && p.mask.after != kUnlimited)) {
    return "composed for plain and causal masks only";
  }
  return "";
}

}  // namespace

void AddOpenBlasAttention(const AttentionRequest& request, Peers& peers) {
  OpenBlas blas;
  if (!LoadOrNote(blas, peers)) return;
  if (const std::string reason = WhyNotOpenBlas(request); !reason.empty()) {
    peers.notes.push_back("peer openblas: " + reason);
    return;
  }
  auto composed =
      std::make_shared<Composed>(blas, request.data, request.row.threads);
  AddIfCorrect(
      request, "openblas.composed", [composed] { composed->Run(); },
      composed->out, peers, static_cast<int64_t>(composed->scores.bytes()));
}

void AddOpenBlasMatmul(const MatmulData& data, const Row& row, Peers& peers) {
  OpenBlas blas;
  if (!LoadOrNote(blas, peers)) return;
  auto c = std::make_shared<Tensor>(
      DType::kF32, std::initializer_list<int64_t>{data.m, data.n});
  const int m = static_cast<int>(data.m), n = static_cast<int>(data.n),
            k = static_cast<int>(data.k);
  auto multiply = [=, &data] {
    blas.sgemm(kRowMajor, kPlain, kPlain, m, n, k, 1, data.a.As<float>(), k,
               data.b.As<float>(), n, 0, c->As<float>(), n);
  };
  auto timed = Timed(multiply);
  Candidate candidate{row, 2.0 * m * n * k, [=](int calls) {
                        blas.set_threads(row.threads);
                        return timed(calls);
                      }};
  candidate.row.impl = "openblas.sgemm";
  candidate.row.peer = true;
  candidate.row.extra_bytes = ResidentGrowth([&] { candidate.time(1); });
  peers.candidates.push_back(std::move(candidate));
}

}  // namespace headwise::bench
