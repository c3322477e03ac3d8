// A model through its public door: runs, edits, hooks, maps, sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/api/state.h"
#include "headwise/api/test_model.h"
#include "headwise/error.h"
#include "headwise/generate.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/model/summary.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/rank.h"
#include "headwise/session.h"
#include "headwise/train.h"

namespace headwise::model_test {
namespace {

using ::testing::HasSubstr;

ErrorCode CodeOf(const std::function<void()>& call, std::string* what = {}) {
  try {
    call();
  } catch (const Error& error) {
    if (what != nullptr) *what = error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

std::vector<float> Values(const Tensor& x) {
  return {x.As<float>(), x.As<float>() + x.size()};
}

TEST(Transformer, TellsWhatItIs) {
  const Transformer model = Novels();
  EXPECT_EQ(model.info().name, "novels");
  EXPECT_TRUE(model.info().causal);
  EXPECT_TRUE(model.info().predicts_tokens);
  EXPECT_GT(model.info().parameters, 0);
  EXPECT_EQ(model.hash().size(), 32u);
  EXPECT_EQ(model.Decode(model.Encode(kSentence).ids), kSentence);
  EXPECT_FALSE(HeadsOf(model).empty());
}

TEST(CopyTensor, ConvertsAndFollowsStrides) {
  Context context({.threads = 1});
  const std::vector<double> from = {1, 2, 3, 4, 5, 6};
  std::vector<float> to(6);
  ConstTensorView turned(from.data(), DType::kF64, {3, 2});
  turned.stride = {1, 3};
  CopyTensor(context, turned, View(to.data(), {3, 2}));
  EXPECT_EQ(to, (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(CodeOf([&] {
              CopyTensor(context, turned, View(to.data(), {2, 3}));
            }),
            ErrorCode::kInvalidArgument);
}

TEST(Transformer, RefusesWhatIsNotThere) {
  EXPECT_EQ(CodeOf([] { Transformer("/nowhere"); }), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf([] {
              Transformer(HEADWISE_SOURCE "/assets/novels",
                          {.type = DType::kBF16});
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([] { ParseDevice("gpu"); }), ErrorCode::kInvalidArgument);
  Transformer model = Novels();
  EXPECT_EQ(CodeOf([&] { model.Weight("nothing"); }), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf([&] { model.Run(std::vector<int32_t>{1 << 30}); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([&] { model.Loss({}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([&] { (void)model.Edit({.drop = {{.layer = 99}}}); }),
            ErrorCode::kInvalidArgument);
  std::string what;
  EXPECT_EQ(CodeOf(
                [&] {
                  (void)model.Hook("layer.0.attention.head_outptu",
                                   [](std::string_view, TensorView) {});
                },
                &what),
            ErrorCode::kNotFound);
  EXPECT_THAT(what, HasSubstr("did you mean layer.0.attention.head_output"));
  EXPECT_FALSE(model.edited());
}

TEST(Transformer, IsEncodedWithByManyThreads) {
  for (int round = 0; round < 5; ++round) {
    const Transformer model = Novels();
    std::latch all(4);
    std::vector<std::string> said(4);
    std::vector<std::thread> threads;
    for (std::string& one : said) {
      threads.emplace_back([&] {
        all.arrive_and_wait();
        one = model.Decode(model.Encode(kSentence).ids) + model.hash();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& one : said) EXPECT_EQ(one, said[0]);
  }
}

TEST(Transformer, RefusesASecondThreadAndNotItself) {
  Transformer model = Novels();
  const std::vector<float> alone = Values(model.Run(kSentence).out);
  Conversation talk(model);
  std::vector<ErrorCode> codes;
  std::string what;
  int encoded = 0;
  const Intervention hook =
      model.Hook("layer.0.output", [&](std::string_view, TensorView) {
        std::thread([&] {
          const std::vector<int32_t> ids = model.Encode(kSentence).ids;
          encoded += model.edited() ? 1 : 0;
          for (const std::function<void()>& call :
               std::vector<std::function<void()>>{
                   [&] { model.Run(ids); }, [&] { model.Loss(ShortText()); },
                   [&] { RankHeads(model, ShortText()); },
                   [&] { Generate(model, kSentence); }, [&] { talk.Feed(ids); },
                   [&] { (void)model.Edit({.drop = {{}}}); }}) {
            codes.push_back(CodeOf(call, &what));
            EXPECT_THAT(what, HasSubstr("[Transformer] expected one calling"));
          }
        }).join();
      });
  EXPECT_EQ(Values(model.Run(kSentence).out), alone);
  EXPECT_EQ(codes, std::vector(6, ErrorCode::kInvalidArgument));
  EXPECT_EQ(encoded, 1);
  std::thread([&] { EXPECT_NO_THROW(model.Run(kSentence)); }).join();
}

TEST(Transformer, DropsWhatAnotherThreadLetGoOfBeforeTheNextCall) {
  Transformer model = Novels();
  const std::vector<float> whole = Values(model.Run(kSentence).out);
  std::optional<Intervention> edit = model.Edit({.drop = {{.layer = 1}}});
  std::optional<Intervention> hook =
      model.Hook("layer.0.output", [&](std::string_view, TensorView) {
        EXPECT_EQ(CodeOf([&] {
                    std::thread([&] {
                      EXPECT_THROW(edit->Remove(), Error);
                      edit.reset();
                    }).join();
                    hook->Remove();  // itself: this call goes on
                    throw Error(ErrorCode::kCancelled, {});
                  }),
                  ErrorCode::kCancelled);
      });
  EXPECT_NE(Values(model.Run(kSentence).out), whole);
  EXPECT_FALSE(model.edited());
  EXPECT_EQ(Values(model.Run(kSentence).out), whole);
}

TEST(Transformer, OfOneFolderSharesWeightsAndNotEdits) {
  Transformer a = Novels(), b = Novels();
  EXPECT_EQ(&a.state().model(), &b.state().model());
  const std::vector<float> whole = Values(b.Run(kSentence).out);
  (void)b.Loss(ShortText(64));  // of more rows than are read where they lie
  const auto& blocks = a.state().model().stack().blocks;
  EXPECT_GT(PreparedBytes(*blocks[0].attention().inputs()[0]->weights()), 0u);
  const Intervention edit = a.Edit({.drop = {{.layer = 1, .head = 2}}});
  EXPECT_NE(Values(a.Run(kSentence).out), whole);
  EXPECT_FALSE(b.edited());
  std::vector<float> beside;
  std::thread other([&] { beside = Values(b.Run(kSentence).out); });
  EXPECT_NE(Values(a.Run(kSentence).out), whole);
  other.join();
  EXPECT_EQ(beside, whole);
}

// What products keep of a model's weights.
size_t PreparedBytesOf(const Transformer& model) {
  size_t bytes = 0;
  for (const Linear* linear : LinearsOf(model.state().model().stack())) {
    bytes += PreparedBytes(*linear->weights());
  }
  return bytes +
         PreparedBytes(*model.state().model().head().vocabulary.weights());
}

TEST(Transformer, GivesTheSameResultsInLessWeightMemory) {
  std::vector<std::string> notices;
  OpenOptions options;
  options.on_notice = [&](std::string_view notice) {
    notices.emplace_back(notice);
  };
  Transformer whole = Novels(options);
  EXPECT_TRUE(notices.empty());
  const GenerateJob job{.max_tokens = 12, .temperature = 0};
  const double loss = whole.Loss(ShortText(64)).loss.value;
  const auto ids = Generate(whole, kSentence, job).ids;
  const std::vector<float> logits = Values(whole.Run(kSentence).out);
  const uint64_t most = whole.state().model().MostPreparedBytes();
  EXPECT_EQ(PreparedBytesOf(whole), most);
  for (const uint64_t limit : {uint64_t{0}, most / 3, most - 1, most}) {
    notices.clear();
    options.weight_memory = limit;
    Transformer limited = Novels(options);
    EXPECT_NE(&limited.state().model(), &whole.state().model());
    ASSERT_EQ(notices.size(), limit < most ? 1 : 0) << limit;
    if (limit < most) {
      EXPECT_TRUE(notices[0].starts_with("[`weight_memory`] expected"))
          << notices[0];
    }
    EXPECT_EQ(limited.Loss(ShortText(64)).loss.value, loss) << limit;
    EXPECT_EQ(Generate(limited, kSentence, job).ids, ids) << limit;
    EXPECT_EQ(Values(limited.Run(kSentence).out), logits) << limit;
    EXPECT_LE(PreparedBytesOf(limited), limit);
    EXPECT_EQ(PreparedBytesOf(limited) > 0, limit > 0);
  }
  options.device = Device::Cuda();
  EXPECT_EQ(CodeOf([&] { Novels(options); }), ErrorCode::kInvalidArgument);
}

TEST(Transformer, RunGivesLogitsAndNamedActivations) {
  Transformer model = Novels();
  const RunOutput run =
      model.Run(kSentence, {.cache = {"layer.?.attention.probs", "logits"}});
  const int64_t tokens = std::ssize(run.ids);
  ASSERT_EQ(run.out.rank(), 3);
  EXPECT_EQ(run.out.shape(1), tokens);
  EXPECT_EQ(run.out.shape(2), model.info().vocabulary);
  EXPECT_EQ(Values(run.out), Values(run.cache.at("logits")));
  EXPECT_EQ(run.cache.at("layer.0.attention.probs").shape(2), tokens);
  EXPECT_EQ(Values(model.Run(run.ids).out), Values(run.out));
}

TEST(Transformer, DroppingAHeadIsZeroingItsOutput) {
  Transformer model = Novels();
  const std::vector<float> whole = Values(model.Run(kSentence).out);
  std::vector<float> dropped;
  {
    const Intervention edit = model.Edit({.drop = {{.layer = 1, .head = 2}}});
    EXPECT_TRUE(model.edited());
    dropped = Values(model.Run(kSentence).out);
  }
  EXPECT_NE(dropped, whole);
  EXPECT_EQ(Values(model.Run(kSentence).out), whole);
  int calls = 0;
  const Intervention hook = model.Hook(
      "layer.1.attention.head_output",
      [&](std::string_view site, TensorView x) {
        ++calls;
        EXPECT_EQ(site, "layer.1.attention.head_output");
        ASSERT_EQ(x.rank, 3);
        for (int64_t t = 0; t < x.shape[0]; ++t) {
          float* head = x.As<float>() + t * x.stride[0] + 2 * x.stride[1];
          std::fill_n(head, x.shape[2], 0.0f);
        }
      });
  EXPECT_EQ(Values(model.Run(kSentence).out), dropped);
  EXPECT_EQ(calls, 1);
}

TEST(Transformer, GatesOfEditsMultiply) {
  Transformer model = Novels();
  const HeadRef head = {.layer = 0, .head = 1};
  std::vector<float> quarter;
  {
    const Intervention edit = model.Edit({.gates = {{head, 0.25}}});
    quarter = Values(model.Run(kSentence).out);
  }
  Intervention first = model.Edit({.gates = {{head, 0.5}}});
  const std::vector<float> half = Values(model.Run(kSentence).out);
  Intervention second = model.Edit({.gates = {{head, 0.5}}});
  EXPECT_EQ(Values(model.Run(kSentence).out), quarter);
  second.Remove();
  EXPECT_EQ(Values(model.Run(kSentence).out), half);
  first = Intervention();
  EXPECT_FALSE(model.edited());
}

TEST(Transformer, HooksOfQueriesChangeWhereHeadsLook) {
  Transformer model = Novels();
  const MapJob job = {.head = {.layer = 0, .head = 0}};
  const std::vector<float> before = Values(model.Map(kSentence, job).weights);
  const Intervention hook =
      model.Hook("layer.0.attention.query", [](std::string_view, TensorView x) {
        for (int64_t t = 0; t < x.shape[0]; ++t) {
          for (int64_t h = 0; h < x.shape[1]; ++h) {
            std::fill_n(x.As<float>() + t * x.stride[0] + h * x.stride[1],
                        x.shape[2], 0.0f);
          }
        }
      });
  const MappedAttention even = model.Map(kSentence, job);
  EXPECT_NE(Values(even.weights), before);
  const int64_t keys = even.keys;
  for (int64_t i = 0; i < even.queries; ++i) {
    EXPECT_NEAR(even.weights.As<float>()[i * keys],
                1.0 / static_cast<double>(i + 1), 1e-6);
  }
}

TEST(Transformer, HookedKeysAreRefusedWhereTheyAreKept) {
  Transformer model = Novels();
  const Intervention hook =
      model.Hook("layer.*.attention.key", [](std::string_view, TensorView) {});
  model.Run(kSentence);
  EXPECT_EQ(CodeOf([&] { Generate(model, "The", {.max_tokens = 2}); }),
            ErrorCode::kUnsupported);
}

TEST(Transformer, WhatAHookThrowsReachesTheCaller) {
  Transformer model = Novels();
  const Intervention hook = model.Hook(
      "layer.0.output",
      [](std::string_view, TensorView) { throw std::runtime_error("enough"); });
  EXPECT_THROW(model.Run(kSentence), std::runtime_error);
}

TEST(Transformer, AnInterventionMayOutliveItsModel) {
  Intervention edit;
  {
    Transformer model = Novels();
    edit = model.Edit({.drop = {{}}});
  }
  edit.Remove();
}

TEST(Transformer, MapsAreTheProbabilitiesOfARun) {
  Transformer model = Novels();
  const RunOutput run =
      model.Run(kSentence, {.cache = {"layer.1.attention.probs"}});
  const Tensor& probs = run.cache.at("layer.1.attention.probs");
  const int64_t n = probs.shape(3);
  const float* head = probs.As<float>() + 2 * n * n;
  MapJob job = {.head = {.layer = 1, .head = 2}};
  job.top = 3;
  job.top_queries = {n - 1};
  job.received = true;
  const MappedAttention map = model.Map(kSentence, job);
  ASSERT_EQ(map.weights.shape(0), n);
  ASSERT_EQ(map.query_tokens.size(), static_cast<size_t>(n));
  for (int64_t i = 0; i < n * n; ++i) {
    EXPECT_NEAR(map.weights.As<float>()[i], head[i], 1e-6);
  }
  const float* last = head + (n - 1) * n;
  EXPECT_NEAR(map.top_weights.As<float>()[0], *std::max_element(last, last + n),
              1e-6);
  EXPECT_EQ(map.received.size(), n);
  job.query_begin = 2;
  job.query_end = 4;
  job.key_begin = 1;
  job.key_end = 4;
  const MappedAttention part = model.Map(kSentence, job);
  ASSERT_EQ(part.weights.shape(0), 2);
  ASSERT_EQ(part.weights.shape(1), 3);
  EXPECT_NEAR(part.weights.As<float>()[0], head[2 * n + 1], 1e-6);
  job.query_end = n + 1;
  EXPECT_EQ(CodeOf([&] { model.Map(kSentence, job); }),
            ErrorCode::kInvalidArgument);
}

TEST(Generate, RefusesValuesOutsideTheirRange) {
  Transformer model = Novels();
  std::string what;
  const auto code = [&](const GenerateJob& job) {
    return CodeOf([&] { Generate(model, "The", job); }, &what);
  };
  for (const GenerateJob& job :
       {GenerateJob{.max_tokens = -1}, GenerateJob{.beam = 0},
        GenerateJob{.temperature = -1}, GenerateJob{.top_k = -1}}) {
    EXPECT_EQ(code(job), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code({.top_p = 0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(what, "[generate] expected top_p above 0 and up to 1; found 0");
}

TEST(Conversation, SaysWhatGenerateSays) {
  Transformer model = Novels();
  const Generated said = Generate(model, "The captain", {.max_tokens = 6});
  ASSERT_EQ(said.ids.size(), 6u);
  Conversation conversation(model);
  Tensor logits = conversation.Feed(said.prompt);
  for (const int32_t id : said.ids) {
    const float* row = logits.As<float>();
    EXPECT_EQ(std::max_element(row, row + logits.size()) - row, id);
    logits = conversation.Feed(std::vector<int32_t>{id});
  }
  EXPECT_EQ(conversation.position(), std::ssize(said.prompt) + 6);
  conversation.Clear();
  EXPECT_EQ(conversation.position(), 0);
}

TEST(Train, RefusesWhatMakesNoSense) {
  EXPECT_EQ(CodeOf([] { Train({}); }), ErrorCode::kInvalidArgument);
  std::string what;
  EXPECT_EQ(CodeOf([] { Train({.json = R"({"stepz": 3})"}); }, &what),
            ErrorCode::kInvalidArgument);
  EXPECT_THAT(what, HasSubstr("steps"));
}

}  // namespace
}  // namespace headwise::model_test
