// The attention operator on tensors of other libraries. Door:
// include/headwise/attention.h; who asks is python/headwise/_torch_op.py.
#include "headwise/attention.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "binding.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/observation.h"
#include "headwise/profile.h"
#include "tensor.h"
#include "whole.h"
#include "work.h"

namespace pybind11::detail {
template <>
struct type_caster<headwise::Context>
    : headwise::python::WholeCaster<headwise::Context> {};
}  // namespace pybind11::detail

namespace headwise::python {
namespace {

// Tensors by the names that the headers give them.
class Named {
 public:
  explicit Named(const py::dict& tensors) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor.is_none()) continue;
      given_[name.cast<std::string>()] =
          FromDlpack(py::reinterpret_borrow<py::object>(tensor));
    }
  }

  // Null where it was not given.
  TensorView Take(const char* name) {
    const auto found = given_.find(name);
    if (found == given_.end()) return {};
    kept_.push_back(std::move(found->second));
    given_.erase(found);
    return kept_.back().view;
  }
  void RequireNoneLeft() const {
    if (given_.empty()) return;
    throw Error(ErrorCode::kInvalidArgument,
                {"attention", "names of its tensors",
                 "\"" + given_.begin()->first + "\"", ""});
  }

 private:
  std::map<std::string, PyTensor> given_ = {};
  std::vector<PyTensor> kept_ = {};
};

// What is not of tensors: (before, after, offset), where −1 reaches all;
// (scale, soft_cap); of packed calls the longest queries and keys.
struct Scores {
  std::array<int64_t, 3> mask = {};
  std::array<double, 2> numbers = {};
  std::array<int64_t, 2> longest = {};
};
using Mask = std::array<int64_t, 3>;
using Numbers = std::array<double, 2>;
using Longest = std::array<int64_t, 2>;

struct Call {
  AttentionProblem problem = {};
  AttentionArgs args = {};
};

int64_t Reach(int64_t number) { return number < 0 ? kUnlimited : number; }

AttentionProblem ProblemOf(const AttentionArgs& args, const Scores& scores) {
  for (const ConstTensorView& view : {args.q, args.k}) {
    if (view.rank != 4) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"attention", "q and k [batch, position, head, dim]",
                   ToString(view), ""});
    }
  }
  AttentionProblem problem;
  problem.packed = bool{args.query_starts};
  problem.batch =
      problem.packed ? args.query_starts.shape[0] - 1 : args.q.shape[0];
  problem.query_len = problem.packed ? scores.longest[0] : args.q.shape[1];
  problem.key_len = problem.packed ? scores.longest[1] : args.k.shape[1];
  problem.heads = args.q.shape[2];
  problem.kv_heads = args.k.shape[2];
  problem.head_dim = args.q.shape[3];
  problem.value_dim = args.v.rank == 4 ? args.v.shape[3] : 0;
  problem.type = args.q.type;
  problem.device = args.q.device;
  problem.mask = {Reach(scores.mask[0]), Reach(scores.mask[1]), scores.mask[2],
                  0};
  problem.scale = static_cast<float>(scores.numbers[0]);
  problem.soft_cap = static_cast<float>(scores.numbers[1]);
  return problem;
}

Call CallOf(Named& tensors, const Scores& scores) {
  Call call;
  AttentionArgs& args = call.args;
  args.q = tensors.Take("q");
  args.k = tensors.Take("k");
  args.v = tensors.Take("v");
  args.out = tensors.Take("out");
  args.query_lengths = tensors.Take("query_lengths");
  args.key_lengths = tensors.Take("key_lengths");
  args.query_starts = tensors.Take("query_starts");
  args.key_starts = tensors.Take("key_starts");
  args.query_offsets = tensors.Take("query_offsets");
  args.sink_logits = tensors.Take("sink_logits");
  args.gates = tensors.Take("gates");
  args.replacement = tensors.Take("replacement");
  args.lse = tensors.Take("lse");
  args.ungated = tensors.Take("ungated");
  call.problem = ProblemOf(args, scores);
  return call;
}

// Null: nothing is observed. What full statistics alone have asks for them.
Observation* ObservationOf(Named& tensors, Observation& made) {
  made.query_labels = tensors.Take("query_labels");
  made.key_labels = tensors.Take("key_labels");
  RowStatistics& rows = made.rows;
  rows.varentropy = tensors.Take("varentropy");
  rows.sum_squares = tensors.Take("sum_squares");
  rows.histogram = tensors.Take("histogram");
  const bool full = rows.varentropy || rows.sum_squares || rows.histogram;
  rows.entropy = tensors.Take("entropy");
  rows.max_probability = tensors.Take("max_probability");
  rows.argmax = tensors.Take("argmax");
  rows.distance = tensors.Take("distance");
  rows.missing = tensors.Take("missing");
  rows.label_mass = tensors.Take("label_mass");
  const bool core = rows.entropy || rows.max_probability || rows.argmax ||
                    rows.distance || rows.missing;
  made.statistics = full ? Statistics::kFull : Statistics::kCore;
  return full || core ? &made : nullptr;
}

template <typename F>
void RunWork(F&& f) {
  Work work;
  work.Run([&] {
    f();
    return true;
  });
}

void Forward(Context& context, const py::dict& given, const Mask& mask,
             const Numbers& numbers, const Longest& longest) {
  Named tensors(given);
  Call call = CallOf(tensors, {mask, numbers, longest});
  Observation observation;
  call.args.observation = ObservationOf(tensors, observation);
  tensors.RequireNoneLeft();
  RunWork([&] { AttentionForward(context, call.problem, call.args); });
}

void Backward(Context& context, const py::dict& given, const Mask& mask,
              const Numbers& numbers, const Longest& longest) {
  Named tensors(given);
  const Call call = CallOf(tensors, {mask, numbers, longest});
  AttentionGrads grads;
  grads.dout = tensors.Take("dout");
  grads.dq = tensors.Take("dq");
  grads.dk = tensors.Take("dk");
  grads.dv = tensors.Take("dv");
  grads.dgates = tensors.Take("dgates");
  grads.dsink_logits = tensors.Take("dsink_logits");
  tensors.RequireNoneLeft();
  RunWork([&] { AttentionBackward(context, call.problem, call.args, grads); });
}

void Band(Context& context, const py::dict& given, const Mask& mask,
          const Numbers& numbers, const Longest& longest, int64_t before,
          int64_t after) {
  Named tensors(given);
  const Call call = CallOf(tensors, {mask, numbers, longest});
  const TensorView mass = tensors.Take("mass"), first = tensors.Take("first");
  tensors.RequireNoneLeft();
  RunWork([&] {
    AttentionBand(context, call.problem, call.args, before, after, mass, first);
  });
}

std::shared_ptr<Context> MakeContext(int gpu, uintptr_t stream, int threads) {
  ContextOptions options;
  options.threads = threads;
  if (gpu >= 0) options.device = Device::Cuda(gpu);
  options.stream = reinterpret_cast<void*>(stream);
  const py::gil_scoped_release released;
  return std::make_shared<Context>(std::move(options));
}

AttentionKind KindNamed(const std::string& name) {
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    if (name == Name(kind)) return kind;
  }
  throw Error(ErrorCode::kInvalidArgument,
              {"kind", "self, decoder or cross", "\"" + name + "\"", ""});
}

using HeadTuple = std::tuple<std::string, int64_t, int64_t>;
using TallyNumbers = std::array<double, Tally::kNumbers>;

// A profile of metrics that were added up elsewhere, a tally a head. settings:
// context, min_visible, repeats, whether all metrics were asked for.
std::shared_ptr<Profile> ProfileOfTallies(
    const std::string& model, const std::string& hash,
    const std::vector<HeadTuple>& heads,
    const std::map<std::string, std::vector<TallyNumbers>>& metrics,
    const std::tuple<int64_t, int64_t, int64_t, bool>& settings,
    const std::array<int64_t, 2>& counts, uint64_t text_key) {
  std::vector<HeadRef> refs;
  refs.reserve(heads.size());
  for (const auto& [kind, layer, head] : heads) {
    refs.push_back({KindNamed(kind), layer, head});
  }
  auto profile = std::make_shared<Profile>(std::move(refs));
  profile->model = model;
  profile->model_hash = hash;
  bool every = false;
  std::tie(profile->settings.context, profile->settings.min_visible,
           profile->settings.repeats, every) = settings;
  profile->settings.metrics = every ? MetricSet::kAll : MetricSet::kCore;
  profile->counts.windows = counts[0];
  profile->counts.tokens = counts[1];
  profile->counts.text_key = text_key;
  for (const auto& [name, numbers] : metrics) {
    if (numbers.size() != heads.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {name, std::to_string(heads.size()) + " heads",
                   std::to_string(numbers.size()), ""});
    }
    std::vector<Tally>& tallies = profile->Tallies(name);
    for (size_t h = 0; h < numbers.size(); ++h) {
      const TallyNumbers& t = numbers[h];
      tallies[h] = {t[0], t[1], t[2], t[3], t[4], t[5]};
    }
  }
  return profile;
}

}  // namespace

void AddAttention(py::module_& module) {
  py::class_<Context, std::shared_ptr<Context>>(module, "Context")
      .def(py::init(&MakeContext), py::arg("gpu"), py::arg("stream"),
           py::arg("threads"));
  module.def("attention_forward", &Forward);
  module.def("attention_backward", &Backward);
  module.def("attention_band", &Band);
  module.def("profile_of_tallies", &ProfileOfTallies);
}

}  // namespace headwise::python
