// One call of a MultiHeadAttention as one call of the models' layer. Private to
// multi_head_attention.cc, multi_head_kept.cc and head_view.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "headwise/base/one_caller.h"
#include "headwise/multi_head_attention.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/hooks.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// Throws Error(kInvalidArgument).
[[noreturn]] void RefuseMultiHead(std::string expected, std::string found,
                                  std::string hint = "");
// Throws unless the view is f32, of this shape, with a last stride of 1.
void RequireMultiHeadShape(const char* name, const ConstTensorView& view,
                           std::initializer_list<int64_t> shape);

// [B, M, n] as [B·M, n]: where it lies, or of a copy, which `copy` keeps.
ConstTensorView SequenceRows(Context& context, const ConstTensorView& view,
                             Temp& copy);

// Gives the operator what a MultiHeadAttentionInput has for it.
class InputHooks : public RunHooks {
 public:
  explicit InputHooks(const MultiHeadAttentionInput& given,
                      const MultiHeadAttentionGradients* gradients = nullptr)
      : given_(given), gradients_(gradients) {}

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void BeforeAttentionBackward(const AttentionSite& site,
                               const AttentionProblem& problem,
                               const AttentionArgs& args,
                               AttentionGrads& grads) override;
  bool WantsSome() const override { return false; }
  bool KeepsCalls() const override { return false; }

 private:
  const MultiHeadAttentionInput& given_;
  const MultiHeadAttentionGradients* gradients_;
};

inline constexpr OneCaller::Rule kCacheRule = {
    "MultiHeadAttentionCache", "give each thread a cache of its own"};

inline constexpr int64_t kAllHeads = -1;

class MultiHeadAttention::Call {
 public:
  // Checks the sizes. The input's views must outlive the call. Of one head: the
  // input's active heads and observation are left out.
  Call(Context& context, const MultiHeadAttention& module,
       const MultiHeadAttentionInput& input, int64_t head = kAllHeads);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  int64_t batch() const { return batch_; }
  int64_t queries() const { return queries_; }
  int64_t keys() const { return keys_; }
  bool empty() const { return batch_ == 0 || queries_ == 0; }
  const MultiHeadAttentionInput& given() const { return given_; }

  // The whole call with less about it, where nothing is asked for but the
  // output of few rows; false: it is not one of those.
  static bool RunSmall(Context& context, const MultiHeadAttention& module,
                       const MultiHeadAttentionInput& input,
                       const TensorView& out);

  // out [B, M, d], or without the output projection [B, M, heads · D].
  enum class Mix : uint8_t { kNo, kYes };
  void Forward(Context& context, RunHooks& hooks, Mix mix, TensorView out,
               AttentionSaved* saved = nullptr);
  void Backward(Context& context, const AttentionSaved& saved,
                ConstTensorView dout,
                const MultiHeadAttentionGradients& gradients);

  // The layer over a module's weights where they lie. Cross: queries, and keys
  // and values, of their own.
  struct Use {
    bool cross = false;
    Mix mix = Mix::kYes;
    int64_t head = kAllHeads;
    MultiHeadAttentionParameters* gradients = nullptr;
  };
  static AttentionLayer LayerOf(const MultiHeadAttention& module,
                                const Use& use);

 private:
  void CheckSource() const;
  // Whether the module's own layer still is where its weights are.
  bool IsBound() const;
  void UseCache();
  bool cross() const;

  const MultiHeadAttention& module_;
  MultiHeadAttentionInput given_;
  int64_t head_;
  int64_t batch_ = 0, queries_ = 0, keys_ = 0;
  Temp x_, source_;  // where rows had to be laid end to end
  std::unique_ptr<Lists> lists_;
  std::optional<OneCaller> cache_caller_;
  CacheView cache_;
  AttentionInput input_;
};

// The sequences of one call.
struct MultiHeadAttention::Lists {
  SequenceBatch queries, keys;
};

// Those of an earlier call, for the next one to fill: it then takes no memory.
class MultiHeadAttention::SpareLists {
 public:
  SpareLists() = default;
  ~SpareLists() { delete one_.load(); }
  SpareLists(const SpareLists&) = delete;
  SpareLists& operator=(const SpareLists&) = delete;

  std::unique_ptr<Lists> Take() {
    std::unique_ptr<Lists> lists(one_.exchange(nullptr));
    return lists ? std::move(lists) : std::make_unique<Lists>();
  }
  void Return(std::unique_ptr<Lists> lists) {
    Lists* none = nullptr;
    if (one_.compare_exchange_strong(none, lists.get())) {
      static_cast<void>(lists.release());  // one_ owns them
    }
  }

 private:
  std::atomic<Lists*> one_ = nullptr;
};

// Where a forward keeps what its backward needs.
struct MultiHeadAttentionActivations::Saved {
  AttentionSaved layer;
};

}  // namespace headwise
