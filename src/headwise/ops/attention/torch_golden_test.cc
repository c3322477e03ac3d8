// Every implementation against PyTorch: testdata/torch_goldens.txt, made by
// tools/make_attention_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "headwise/observation.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/testing/tolerances.h"

namespace headwise::torch_golden_test {
namespace {

// Sizes and options by name, and tensors as plain lists of numbers.
struct Golden {
  std::string name;
  std::map<std::string, double> options;
  std::map<std::string, std::vector<float>> tensors;

  int64_t Size(const std::string& option) const {
    return static_cast<int64_t>(options.at(option));
  }
  bool Has(const std::string& tensor) const { return tensors.count(tensor); }
};

std::vector<Golden> ReadGoldens() {
  std::ifstream file(HEADWISE_ATTENTION_TESTDATA "/torch_goldens.txt");
  std::vector<Golden> goldens;
  std::string word;
  file >> word >> word;  // torch and its version
  while (file >> word) {
    if (word == "case") {
      file >> goldens.emplace_back().name;
      while (file >> word && word != "end") {
        file >> goldens.back().options[word];
      }
      continue;
    }
    size_t count = 0;
    file >> count;
    std::vector<float>& values = goldens.back().tensors[word];
    values.resize(count);
    for (float& value : values) file >> value;
  }
  return goldens;
}

AttentionProblem ProblemOf(const Golden& g) {
  AttentionProblem p;
  p.batch = g.Size("batch");
  p.heads = g.Size("heads");
  p.kv_heads = g.Size("kv_heads");
  p.query_len = g.Size("queries");
  p.key_len = g.Size("keys");
  p.head_dim = g.Size("dim");
  p.value_dim = g.Size("value_dim");
  if (g.Size("before") >= 0) p.mask.before = g.Size("before");
  if (g.Size("after") >= 0) p.mask.after = g.Size("after");
  p.mask.query_offset = g.Size("offset");
  p.mask.sinks = g.Size("sinks");
  if (g.Size("alibi") != 0) p.bias = AttentionBias::kAlibi;
  if (g.Size("reach") >= 0) {
    p.bias = AttentionBias::kRelative;
    p.relative_reach = g.Size("reach");
  }
  p.scale = static_cast<float>(g.options.at("scale"));
  p.soft_cap = static_cast<float>(g.options.at("soft_cap"));
  return p;
}

class GoldenRun {
 public:
  GoldenRun(const Golden& golden, const std::string& implementation)
      : g_(golden),
        p_(ProblemOf(golden)),
        context_(
            {.threads = 2, .implementations = "attention:" + implementation}) {}

  void Run() {
    SCOPED_TRACE(g_.name);
    const int64_t b = p_.batch, m = p_.query_len, n = p_.key_len;
    const int64_t h = p_.heads, g = p_.kv_heads;
    const int64_t d = p_.head_dim, e = p_.value_dim;
    args_.q = Input("q", {b, m, h, d});
    args_.k = Input("k", {b, n, g, d});
    args_.v = Input("v", {b, n, g, e});
    args_.alibi_slopes = Input("slopes", {h});
    args_.relative_table = Input("table", {h, 2 * p_.relative_reach + 1});
    args_.sink_logits = Input("sink_logits", {h});
    args_.gates = Input("gates", {b, m, h});
    args_.replacement = Input("replacement", {b, m, h, e});
    if (g_.Has("key_lengths")) {
      lengths_.assign(g_.tensors.at("key_lengths").begin(),
                      g_.tensors.at("key_lengths").end());
      args_.key_lengths = ConstTensorView(lengths_.data(), DType::kI32, {b});
    }
    args_.out = Output("out", {b, m, h, e});
    args_.ungated = Output("ungated", {b, m, h, e});
    args_.lse = Output("lse", {b, h, m});
    Observation o;
    o.rows.entropy = Output("entropy", {b, h, m});
    args_.observation = &o;
    AttentionForward(context_, p_, args_);
    const AttentionTolerance tolerance = AttentionToleranceOf(DType::kF32);
    Check("out", 2 * tolerance.output);  // |v| ≤ 2
    Check("lse", tolerance.statistics);
    Check("entropy", tolerance.statistics);

    AttentionGrads grads;
    grads.dout = Input("dout", {b, m, h, e});
    grads.dentropy = Input("dentropy", {b, h, m});
    grads.dq = Output("dq", {b, m, h, d});
    grads.dk = Output("dk", {b, n, g, d});
    grads.dv = Output("dv", {b, n, g, e});
    if (g_.Has("gates")) grads.dgates = Output("dgates", {b, m, h});
    if (g_.Has("table")) {
      grads.drelative_table = Output("dtable", {h, 2 * p_.relative_reach + 1});
    }
    if (g_.Has("sink_logits")) grads.dsink_logits = Output("dsink_logits", {h});
    AttentionBackward(context_, p_, args_, grads);
    for (const char* name :
         {"dq", "dk", "dv", "dgates", "dtable", "dsink_logits"}) {
      if (g_.Has(name)) Check(name, tolerance.gradient);
    }
  }

 private:
  ConstTensorView Input(const std::string& name,
                        std::initializer_list<int64_t> shape) {
    if (!g_.Has(name)) return {};
    return View(g_.tensors.at(name).data(), shape);
  }

  TensorView Output(const std::string& name,
                    std::initializer_list<int64_t> shape) {
    outputs_[name] = Tensor(DType::kF32, shape);
    return outputs_[name].view();
  }

  void Check(const std::string& name, double tolerance) {
    const std::vector<float>& expected = g_.tensors.at(name);
    ASSERT_EQ(static_cast<int64_t>(expected.size()), outputs_[name].size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double found = outputs_[name].As<float>()[i];
      ASSERT_NEAR(found, expected[i],
                  tolerance * std::max(1.0, std::abs(double{expected[i]})))
          << name << " " << i;
    }
  }

  const Golden& g_;
  AttentionProblem p_;
  Context context_;
  AttentionArgs args_;
  std::vector<int32_t> lengths_;
  std::map<std::string, Tensor> outputs_;
};

TEST(TorchGoldens, AreMetByEveryImplementation) {
  const std::vector<Golden> goldens = ReadGoldens();
  ASSERT_EQ(goldens.size(), 8u);
  for (const AttentionImplementation& entry :
       AttentionImplementations().entries) {
    for (const Golden& golden : goldens) {
      const AttentionProblem problem = ProblemOf(golden);
      if (!WhyNot(entry, AttentionPass::kForward, problem).empty()) continue;
      SCOPED_TRACE(entry.name);
      GoldenRun(golden, entry.name).Run();
    }
  }
}

}  // namespace
}  // namespace headwise::torch_golden_test
