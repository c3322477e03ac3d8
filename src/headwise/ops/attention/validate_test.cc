// What bad input gets: Error(kInvalidArgument) that names the numbers, for
// every sentence of the contract.
#include "headwise/ops/attention/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <optional>

#include "headwise/error.h"
#include "headwise/ops/attention/view_checks.h"

namespace headwise::validate_test {
namespace {

using testing::HasSubstr;

// A valid call of every pass: 2 sequences, 4 heads on 2, 5 queries, 6 keys,
// head_dim 8, value_dim 3, relative bias of reach 2, 2 features, 3 labels.
struct Call {
  Call() {
    problem.batch = 2;
    problem.heads = 4;
    problem.kv_heads = 2;
    problem.query_len = 5;
    problem.key_len = 6;
    problem.head_dim = 8;
    problem.value_dim = 3;
    problem.bias = AttentionBias::kRelative;
    problem.relative_reach = 2;
    args.q = Add(DType::kF32, {2, 5, 4, 8});
    args.k = Add(DType::kF32, {2, 6, 2, 8});
    args.v = Add(DType::kF32, {2, 6, 2, 3});
    args.out = Add(DType::kF32, {2, 5, 4, 3});
    args.ungated = Add(DType::kF32, {2, 5, 4, 3});
    args.lse = Add(DType::kF32, {2, 4, 5});
    args.query_lengths = Add(DType::kI32, {2});
    args.key_lengths = Add(DType::kI32, {2});
    args.query_offsets = Add(DType::kI32, {2});
    args.relative_table = Add(DType::kF32, {4, 5});
    args.sink_logits = Add(DType::kF32, {4});
    args.gates = Add(DType::kF32, {2, 5, 4});
    args.replacement = Add(DType::kF32, {2, 5, 4, 3});
    args.active_heads = active;
    args.observation = &o;
    o.statistics = Statistics::kFull;
    o.key_features = Add(DType::kF32, {2, 6, 2});
    o.query_labels = Add(DType::kI32, {3, 2, 5});
    o.key_labels = Add(DType::kI32, {3, 2, 6});
    o.excluded_keys = Add(DType::kU8, {2, 6});
    o.query_weights = Add(DType::kF32, {2, 5});
    o.rows.entropy = Add(DType::kF32, {2, 4, 5});
    o.rows.argmax = Add(DType::kI32, {2, 4, 5});
    o.rows.missing = Add(DType::kF32, {2, 4, 5});
    o.rows.varentropy = Add(DType::kF32, {2, 4, 5});
    o.rows.histogram = Add(DType::kF32, {2, 4, 5, kHistogramBuckets});
    o.rows.feature_mass = Add(DType::kF32, {2, 4, 5, 2});
    o.rows.label_mass = Add(DType::kF32, {2, 4, 5, 3});
    o.summed.sums = Add(DType::kF64, {2, 4, kSumColumns});
    o.summed.feature_mass = Add(DType::kF64, {2, 4, 2});
    grads.dout = Add(DType::kF32, {2, 5, 4, 3});
    grads.dentropy = Add(DType::kF32, {2, 4, 5});
    grads.dq = Add(DType::kF32, {2, 5, 4, 8});
    grads.dk = Add(DType::kF32, {2, 6, 2, 8});
    grads.dv = Add(DType::kF32, {2, 6, 2, 3});
    grads.dgates = Add(DType::kF32, {2, 5, 4});
    grads.drelative_table = Add(DType::kF32, {4, 5});
    grads.dsink_logits = Add(DType::kF32, {4});
    grads.received = Add(DType::kF32, {2, 4, 6});
    probabilities = Add(DType::kF32, {2, 4, 6});
    top_keys = Add(DType::kI32, {2, 4, 3});
    top_probabilities = Add(DType::kF32, {2, 4, 3});
    mass = Add(DType::kF32, {4, 3});
    is_argmax = Add(DType::kU8, {4, 3});
    received = Add(DType::kF32, {2, 4, 6});
    maximum = Add(DType::kF32, {2, 3});
    mean = Add(DType::kF32, {2, 3});
    gram = Add(DType::kF64, {8, 8});
  }

  // Two sequences of 2 and 3 queries, 2 and 4 keys, end to end.
  void Pack() {
    problem.packed = true;
    args = {};
    args.q = Add(DType::kF32, {1, 5, 4, 8});
    args.k = Add(DType::kF32, {1, 6, 2, 8});
    args.v = Add(DType::kF32, {1, 6, 2, 3});
    args.out = Add(DType::kF32, {1, 5, 4, 3});
    args.relative_table = Add(DType::kF32, {4, 5});
    args.sink_logits = Add(DType::kF32, {4});
    starts[0] = AddInts({0, 2, 5});
    starts[1] = AddInts({0, 2, 6});
    args.query_starts = starts[0];
    args.key_starts = starts[1];
  }

  TensorView Add(DType type, std::initializer_list<int64_t> shape) {
    return tensors.emplace_back(type, shape).view();
  }
  TensorView AddInts(std::initializer_list<int32_t> values) {
    const TensorView view =
        Add(DType::kI32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), view.As<int32_t>());
    return view;
  }

  void Forward() const { ValidateForward(problem, args); }
  void Backward() const { ValidateBackward(problem, args, grads); }
  void Rows() const { ValidateRows(problem, args, rows, probabilities); }
  void TopK() const {
    ValidateTopK(problem, args, rows, top_keys, top_probabilities);
  }
  void Pairs() const {
    ValidatePairs(problem, args, {rows, offsets, keys}, o.rows.argmax, mass,
                  is_argmax);
  }
  void Received() const {
    ValidateReceived(problem, args, o.query_weights, received);
  }
  void Window() const { ValidateWindow(problem, args, window, maximum, mean); }
  void Gram() const {
    const HeadSource sources[] = {{problem, args},
                                  {other_problem.value_or(problem), args}};
    ValidateGram(sources, o.query_weights, gram);
  }

  std::deque<Tensor> tensors;
  AttentionProblem problem;
  AttentionArgs args;
  Observation o;
  AttentionGrads grads;
  TensorView starts[2];
  std::vector<int32_t> active = {0, 1, 3};
  std::vector<RowRef> rows = {{0, 4}, {1, 0}};
  std::vector<int64_t> offsets = {0, 1, 3};
  std::vector<int32_t> keys = {5, 0, 2};
  WindowRequest window = {1, 3, 0, 5, 2, 6};
  TensorView probabilities, top_keys, top_probabilities, mass, is_argmax,
      received, maximum, mean, gram;
  std::optional<AttentionProblem> other_problem;
};

using Pass = void (Call::*)() const;

// The call with `spoil` done to it is refused, in words that hold `text`.
void ExpectRefused(Pass pass, const std::string& text,
                   const std::function<void(Call&)>& spoil) {
  Call call;
  ASSERT_NO_THROW((call.*pass)());
  spoil(call);
  try {
    (call.*pass)();
    ADD_FAILURE() << "nothing was thrown; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(AttentionValidation, Sizes) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Forward, text, spoil);
  };
  refuse("4 heads, 3 kv_heads", [](Call& c) { c.problem.kv_heads = 3; });
  refuse("heads", [](Call& c) { c.problem.heads = 0; });
  refuse("kv_heads", [](Call& c) { c.problem.kv_heads = 0; });
  refuse("-1", [](Call& c) { c.problem.batch = -1; });
  refuse("-7", [](Call& c) { c.problem.query_len = -7; });
  refuse("-8", [](Call& c) { c.problem.key_len = -8; });
  refuse("head_dim", [](Call& c) { c.problem.head_dim = 0; });
  refuse("value_dim", [](Call& c) { c.problem.value_dim = -1; });
  refuse("relative_reach", [](Call& c) { c.problem.relative_reach = -1; });
  refuse("1073741824", [](Call& c) { c.problem.key_len = 1 << 30; });
  refuse("63 bits", [](Call& c) {
    c.problem.batch = c.problem.query_len = 1 << 29;
    c.problem.heads = 1 << 10;
  });
}

TEST(AttentionValidation, Devices) {
  for (const Pass pass :
       {&Call::Forward, &Call::Backward, &Call::Rows, &Call::Gram}) {
    ExpectRefused(pass, "q on cpu, the problem's device; found q on cuda:0",
                  [](Call& c) { c.args.q.device = Device::Cuda(); });
    ExpectRefused(pass, "q on cuda:1, the problem's device; found q on cpu",
                  [](Call& c) { c.problem.device = Device::Cuda(1); });
  }
  ExpectRefused(&Call::Forward, "argmax on cpu",
                [](Call& c) { c.o.rows.argmax.device = Device::Cuda(); });
  ExpectRefused(&Call::Forward, "key_lengths on cpu",
                [](Call& c) { c.args.key_lengths.device = Device::Cuda(); });
  ExpectRefused(&Call::Backward, "dk on cpu",
                [](Call& c) { c.grads.dk.device = Device::Cuda(); });
}

TEST(AttentionValidation, Options) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Forward, text, spoil);
  };
  refuse("i32", [](Call& c) { c.problem.type = DType::kI32; });
  refuse("a precision of stored, bf16 or f16; found 3",
         [](Call& c) { c.problem.precision = static_cast<Precision>(3); });
  refuse("mask.before",
         [](Call& c) { c.problem.mask = AttentionMask::SlidingWindow(0); });
  refuse("mask.after", [](Call& c) { c.problem.mask.after = -2; });
  refuse("mask.sinks", [](Call& c) { c.problem.mask.sinks = -2; });
  refuse("query_offset", [](Call& c) {
    c.problem.mask.query_offset = std::numeric_limits<int64_t>::min();
  });
  refuse("scale", [](Call& c) { c.problem.scale = NAN; });
  refuse("soft_cap", [](Call& c) { c.problem.soft_cap = -1; });
  refuse("alibi_slopes",
         [](Call& c) { c.problem.bias = AttentionBias::kAlibi; });
  refuse("4 after 3", [](Call& c) { c.active = {0, 3, 4}; });
  refuse("1 after 1", [](Call& c) { c.active = {0, 1, 1}; });
  refuse("0 … 3", [](Call& c) { c.active = {-1, 0, 1}; });
}

TEST(AttentionValidation, Views) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Forward, text, spoil);
  };
  refuse("no q", [](Call& c) { c.args.q = {}; });
  refuse("no k", [](Call& c) { c.args.k = {}; });
  refuse("no v", [](Call& c) { c.args.v = {}; });
  refuse("no out", [](Call& c) { c.args.out = {}; });
  refuse("no relative_table", [](Call& c) { c.args.relative_table = {}; });
  refuse("q f32 [2, 5, 4, 8]", [](Call& c) { c.args.q.shape[1] = 4; });
  refuse("bf16", [](Call& c) { c.args.k.type = DType::kBF16; });
  refuse("f32 [2, 6, 2]", [](Call& c) { c.args.v.rank = 3; });
  refuse("last stride 1", [](Call& c) { c.args.q.stride[3] = 2; });
  refuse("lse f32 [2, 4, 5]", [](Call& c) { c.args.lse.shape[1] = 5; });
  refuse("ungated", [](Call& c) { c.args.ungated.shape[3] = 8; });
  refuse("gates f32 [2, 5, 4]", [](Call& c) { c.args.gates.shape[2] = 1; });
  refuse("replacement", [](Call& c) { c.args.replacement.shape[3] = 8; });
  refuse("fit memory", [](Call& c) { c.args.q.stride[0] = int64_t{1} << 60; });
}

TEST(AttentionValidation, OutputsMayNotOverlap) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Forward, text, spoil);
  };
  refuse("out apart from q",
         [](Call& c) { c.args.out.data = const_cast<void*>(c.args.q.data); });
  refuse("out apart from ungated",
         [](Call& c) { c.args.ungated.data = c.args.out.data; });
  refuse("lse", [](Call& c) { c.o.rows.entropy.data = c.args.lse.data; });
  refuse("strides [0, 12, 3, 1]", [](Call& c) { c.args.out.stride[0] = 0; });
  refuse("do not overlap", [](Call& c) { c.args.out.stride[2] = 2; });
  ExpectRefused(&Call::Backward, "dk apart from dv",
                [](Call& c) { c.grads.dv.data = c.grads.dk.data; });
}

TEST(AttentionValidation, SinkLogits) {
  for (const Pass pass :
       {&Call::Forward, &Call::Backward, &Call::Rows, &Call::TopK, &Call::Pairs,
        &Call::Received, &Call::Window, &Call::Gram}) {
    ExpectRefused(pass, "sink_logits f32 [4]",
                  [](Call& c) { c.args.sink_logits.shape[0] = 2; });
    ExpectRefused(pass, "sink_logits f32 [4]",
                  [](Call& c) { c.args.sink_logits.type = DType::kBF16; });
    ExpectRefused(pass, "sink_logits on cpu",
                  [](Call& c) { c.args.sink_logits.device = Device::Cuda(); });
  }
  ExpectRefused(&Call::Forward, "sink_logits f32 [4]", [](Call& c) {
    c.Pack();
    ASSERT_NO_THROW(c.Forward());
    c.args.sink_logits.rank = 0;
  });
  ExpectRefused(&Call::Forward, "missing f32 [2, 4, 5]",
                [](Call& c) { c.o.rows.missing.shape[2] = 6; });
  ExpectRefused(&Call::Backward, "dsink_logits f32 [4]",
                [](Call& c) { c.grads.dsink_logits.shape[0] = 5; });
  ExpectRefused(&Call::Backward, "sink_logits for dsink_logits",
                [](Call& c) { c.args.sink_logits = {}; });
  ExpectRefused(
      &Call::Backward, "dsink_logits apart from sink_logits", [](Call& c) {
        c.grads.dsink_logits.data = const_cast<void*>(c.args.sink_logits.data);
      });
}

TEST(AttentionValidation, LengthsAndOffsets) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Forward, text, spoil);
  };
  auto set = [](ConstTensorView& view, int32_t value) {
    const_cast<int32_t*>(view.As<int32_t>())[1] = value;
  };
  refuse("6 at sequence 1", [&](Call& c) { set(c.args.query_lengths, 6); });
  refuse("-1 at sequence 1", [&](Call& c) { set(c.args.key_lengths, -1); });
  refuse("2000000000", [&](Call& c) { set(c.args.query_offsets, 2000000000); });
  refuse("key_lengths", [](Call& c) { c.args.key_lengths.shape[0] = 1; });
  refuse("starts", [](Call& c) { c.args.key_starts = c.args.key_lengths; });
}

TEST(AttentionValidation, PackedStarts) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Forward, text, [&](Call& c) {
      c.Pack();
      ASSERT_NO_THROW(c.Forward());
      spoil(c);
    });
  };
  refuse("no query_starts", [](Call& c) { c.args.query_starts = {}; });
  refuse("lengths", [](Call& c) { c.args.key_lengths = c.AddInts({1, 1}); });
  refuse("1 to 5", [](Call& c) { c.starts[0].As<int32_t>()[0] = 1; });
  refuse("0 to 4", [](Call& c) { c.starts[0].As<int32_t>()[2] = 4; });
  refuse("7 then 6", [](Call& c) {
    c.problem.key_len = 7;
    c.starts[1].As<int32_t>()[1] = 7;
  });
  refuse("2 then 6 at sequence 1", [](Call& c) { c.problem.key_len = 3; });
}

TEST(AttentionValidation, Observations) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Forward, text, spoil);
  };
  refuse("kFull", [](Call& c) { c.o.statistics = Statistics::kCore; });
  refuse("entropy", [](Call& c) { c.o.statistics = Statistics::kNone; });
  refuse("key_features", [](Call& c) { c.o.key_features = {}; });
  refuse("key_features", [](Call& c) { c.o.key_features.shape[1] = 5; });
  refuse("query_labels and key_labels", [](Call& c) { c.o.key_labels = {}; });
  refuse("key_labels i32 [3, 2, 6]",
         [](Call& c) { c.o.key_labels.shape[0] = 2; });
  refuse("label channels", [](Call& c) {
    c.o.query_labels = c.Add(DType::kI32, {5, 2, 5});
    c.o.key_labels = c.Add(DType::kI32, {5, 2, 6});
  });
  refuse("excluded_keys", [](Call& c) { c.o.excluded_keys.shape[0] = 1; });
  refuse("query_weights", [](Call& c) { c.o.query_weights.rank = 1; });
  refuse("feature_mass", [](Call& c) { c.o.rows.feature_mass.shape[3] = 1; });
  refuse("label_mass", [](Call& c) { c.o.rows.label_mass.shape[3] = 2; });
  refuse("sums f64", [](Call& c) { c.o.summed.sums.type = DType::kF32; });
  refuse("histogram", [](Call& c) { c.o.rows.histogram.shape[3] = 42; });
}

TEST(AttentionValidation, BackwardNeedsWhatTheForwardWrote) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Backward, text, spoil);
  };
  refuse("no lse", [](Call& c) { c.args.lse = {}; });
  refuse("no ungated", [](Call& c) { c.args.ungated = {}; });
  refuse("no out", [](Call& c) {
    c.args.gates = {};
    c.args.out = {};
  });
  refuse("no dout", [](Call& c) { c.grads.dout = {}; });
  refuse("dq", [](Call& c) { c.grads.dq.shape[3] = 3; });
  refuse("dk", [](Call& c) { c.grads.dk.shape[2] = 4; });
  refuse("dv", [](Call& c) { c.grads.dv.shape[3] = 8; });
  refuse("dgates", [](Call& c) { c.grads.dgates.rank = 2; });
  refuse("dentropy", [](Call& c) { c.grads.dentropy.shape[1] = 1; });
  refuse("received", [](Call& c) { c.grads.received.shape[2] = 5; });
  refuse("drelative_table f32 [4, 5]",
         [](Call& c) { c.grads.drelative_table.shape[1] = 4; });
  refuse("kRelative", [](Call& c) { c.problem.bias = AttentionBias::kNone; });
}

TEST(AttentionValidation, RowsAndTopK) {
  for (const Pass pass : {&Call::Rows, &Call::TopK, &Call::Pairs}) {
    ExpectRefused(pass, "no lse", [](Call& c) { c.args.lse = {}; });
    ExpectRefused(pass, "a sequence below 2",
                  [](Call& c) { c.rows[1].sequence = 2; });
    ExpectRefused(pass, "5 at row 1", [](Call& c) { c.rows[1].query = 5; });
    ExpectRefused(pass, "-1 at row 0", [](Call& c) { c.rows[0].query = -1; });
  }
  ExpectRefused(&Call::Rows, "f32 [2, 4, 6]",
                [](Call& c) { c.probabilities.shape[2] = 5; });
  ExpectRefused(&Call::Rows, "f32 [1, 4, 6]",
                [](Call& c) { c.rows.pop_back(); });
  ExpectRefused(&Call::TopK, "f32 [2, 4, 3]",
                [](Call& c) { c.top_probabilities.shape[2] = 2; });
  ExpectRefused(&Call::TopK, "no keys", [](Call& c) { c.top_keys = {}; });
  ExpectRefused(&Call::TopK, "k ≥ 1", [](Call& c) { c.top_keys.shape[2] = 0; });
}

TEST(AttentionValidation, PairLists) {
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Pairs, text, spoil);
  };
  refuse("3 offsets for 2 rows", [](Call& c) { c.offsets = {0, 3}; });
  refuse("0 to 3", [](Call& c) { c.offsets = {0, 1, 2}; });
  refuse("never fall", [](Call& c) { c.offsets = {0, 7, 3}; });
  refuse("6 at pair 0", [](Call& c) { c.keys[0] = 6; });
  refuse("argmax", [](Call& c) { c.o.rows.argmax = {}; });
  refuse("mass f32 [4, 3]", [](Call& c) { c.mass.shape[1] = 2; });
  refuse("is_argmax", [](Call& c) { c.is_argmax.type = DType::kF32; });
}

TEST(AttentionValidation, Maps) {
  ExpectRefused(&Call::Received, "received f32 [2, 4, 6]",
                [](Call& c) { c.received.shape[2] = 5; });
  ExpectRefused(&Call::Received, "query_weights",
                [](Call& c) { c.o.query_weights.shape[1] = 4; });
  auto refuse = [](const char* text, const std::function<void(Call&)>& spoil) {
    ExpectRefused(&Call::Window, text, spoil);
  };
  refuse("a sequence", [](Call& c) { c.window.sequence = -1; });
  refuse("a head below 4", [](Call& c) { c.window.head = 4; });
  refuse("active head", [](Call& c) { c.window.head = 2; });
  refuse("[0, 6)", [](Call& c) { c.window.query_end = 6; });
  refuse("[6, 6)", [](Call& c) { c.window.key_begin = 6; });
  refuse("none", [](Call& c) { c.maximum = c.mean = {}; });
  refuse("mean f32 [2, 3]", [](Call& c) { c.mean.shape[1] = 2; });
  refuse("at least one cell", [](Call& c) { c.maximum.shape[0] = 0; });
}

TEST(AttentionValidation, GramSourcesAreAlike) {
  ExpectRefused(&Call::Gram, "gram f64 [8, 8]",
                [](Call& c) { c.gram.shape[0] = 4; });
  ExpectRefused(&Call::Gram, "same batch", [](Call& c) {
    c.other_problem = c.problem;
    c.other_problem->mask = AttentionMask::Causal();
  });
  EXPECT_THROW(ValidateGram({}, {}, {}), Error);
}

TEST(AttentionValidation, EmptyProblemsNeedNoMemory) {
  AttentionProblem problem;
  problem.head_dim = 4;
  EXPECT_NO_THROW(ValidateForward(problem, {}));
}

TEST(MayOverlap, KnowsInterleavedViewsApart) {
  // q, k, v of one fused projection: [2, 3, (q k v), 4 · 8].
  Tensor fused(DType::kF32, {2, 3, 3 * 32});
  ConstTensorView parts[3];
  for (int n = 0; n < 3; ++n) {
    parts[n] =
        ConstTensorView(fused.As<float>() + n * 32, DType::kF32, {2, 3, 4, 8});
    parts[n].stride = {3 * 96, 96, 8, 1};
  }
  EXPECT_FALSE(MayOverlap(parts[0], parts[1]));
  EXPECT_FALSE(MayOverlap(parts[2], parts[0]));
  EXPECT_TRUE(MayOverlap(parts[1], parts[1]));
  ConstTensorView shifted = parts[0];
  shifted.data = fused.As<float>() + 31;
  EXPECT_TRUE(MayOverlap(parts[0], shifted));
  EXPECT_TRUE(MayOverlap(parts[1], shifted));
  EXPECT_FALSE(MayOverlap(parts[2], shifted));
}

}  // namespace
}  // namespace headwise::validate_test
