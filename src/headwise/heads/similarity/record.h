// What one window leaves behind for comparing heads: queries, keys and LSE of
// every attention layer (O(tokens), never a map), and outputs of some tokens.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/model/head_ref.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"

namespace headwise {

// Rows of one window that count, by the side that asks.
struct CountedRows {
  std::vector<float> weights;    // 1 where the row counts
  std::vector<int64_t> sampled;  // for divergences
  std::vector<int64_t> outputs;  // for outputs

  int64_t count() const;
};

class WindowRecord : public RunHooks {
 public:
  // Of runs with this context; `rows` by kind: which rows count and are
  // sampled.
  WindowRecord(Context& context, std::map<AttentionKind, CountedRows> rows);

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;
  bool Wants(std::string_view activation) const override;
  void Take(std::string_view activation, ConstTensorView value) override;

  const CountedRows& rows(AttentionKind kind) const { return rows_.at(kind); }
  // One sequence, not packed; views point into this object, on the context's
  // device.
  const HeadSource& source(AttentionKind kind, int64_t layer) const {
    return layers_.at({kind, layer}).source;
  }
  // f32 [outputs, heads, E] on the host.
  const Tensor& outputs(AttentionKind kind, int64_t layer) const {
    return layers_.at({kind, layer}).outputs;
  }

 private:
  Context* context_;
  struct Layer {
    Tensor q, k, lse, relative_table, outputs;
    HeadSource source;
  };
  std::map<AttentionKind, CountedRows> rows_;
  std::map<std::pair<AttentionKind, int64_t>, Layer> layers_;
  // The site that runs: its output is taken right after it.
  std::pair<AttentionKind, int64_t> last_;
};

}  // namespace headwise
