// Loading, running, edits and hooks. Doors: include/headwise/model.h,
// session.h.
#include "model.h"

#include <map>
#include <optional>

#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/generate.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/model_info.h"
#include "headwise/text_input.h"
#include "tensor.h"

namespace headwise::python {
namespace {

using ModelPointer = std::shared_ptr<PyModel>;

// Means of heads, kept whole: only edits read them.
struct Means {
  HeadMeans means;
};

// Its end waits for nobody: what runs in another thread goes on with it.
class PyIntervention {
 public:
  PyIntervention(ModelPointer model, Intervention made)
      : model_(std::move(model)), made_(std::move(made)) {}
  void Remove() {
    Work work;
    Use(*model_, work, [&](Transformer&) {
      made_.Remove();
      return true;
    });
  }

 private:
  ModelPointer model_;
  Intervention made_;
};

}  // namespace
}  // namespace headwise::python

namespace pybind11::detail {
template <>
struct type_caster<headwise::GenerateJob>
    : headwise::python::WholeCaster<headwise::GenerateJob> {};
template <>
struct type_caster<headwise::python::Means>
    : headwise::python::WholeCaster<headwise::python::Means> {};
template <>
struct type_caster<headwise::python::PyIntervention>
    : headwise::python::WholeCaster<headwise::python::PyIntervention> {};
}  // namespace pybind11::detail

namespace headwise::python {
namespace {

using Ids = std::vector<int32_t>;

py::dict InfoOf(const PyModel& of) {
  const ModelInfo& info = of.model.info();
  const auto layers = [](const std::vector<LayerInfo>& all) {
    py::list list;
    for (const LayerInfo& layer : all) {
      py::dict one;
      one["heads"] = layer.heads;
      one["kv_heads"] = layer.kv_heads;
      one["cross_heads"] = layer.cross_heads;
      one["window"] = layer.window;
      one["head_dim"] = layer.head_dim;
      list.append(one);
    }
    return list;
  };
  py::dict dict;
  dict["name"] = info.name;
  dict["family"] = info.family;
  dict["model_type"] = info.model_type;
  dict["width"] = info.width;
  dict["feed_forward"] = info.feed_forward;
  dict["vocabulary"] = info.vocabulary;
  dict["context"] = info.context;
  dict["causal"] = info.causal;
  dict["encoder_decoder"] = info.encoder_decoder;
  dict["predicts_tokens"] = info.predicts_tokens;
  dict["layers"] = layers(info.layers);
  dict["decoder_layers"] = layers(info.decoder_layers);
  dict["unread"] = info.unread;
  dict["parameters"] = info.parameters;
  dict["file_bytes"] = info.file_bytes;
  return dict;
}

ModelPointer Open(const std::string& folder, const std::string& device,
                  const std::optional<std::string>& type, int threads,
                  const std::optional<bool>& bos,
                  const std::string& implementations,
                  const std::optional<uint64_t>& weight_memory) {
  Work work;
  return work.Run([&] {
    OpenOptions options;
    options.device = ParseDevice(device);
    if (type) options.type = ParseType(*type);
    options.threads = threads;
    options.implementations = implementations;
    options.weight_memory = weight_memory;
    if (bos) options.bos = *bos ? BosChoice::kYes : BosChoice::kNo;
    return std::make_shared<PyModel>(folder, options);
  });
}

// A text, or ids: run(text) of what there is.
template <typename F>
auto WithText(const py::object& text, F&& run) {
  if (py::isinstance<py::str>(text)) return run(text.cast<std::string>());
  return run(text.cast<Ids>());
}

py::tuple Run(PyModel& model, const py::object& text,
              const std::vector<std::string>& cache, bool out,
              const std::string& target) {
  Work work;
  const RunJob job{.cache = cache, .out = out, .target = target};
  RunOutput output = WithText(text, [&](const auto& given) {
    return Use(model, work,
               [&](Transformer& of) { return of.Run(given, job); });
  });
  py::dict kept;
  for (auto& [name, tensor] : output.cache) {
    kept[py::str(name)] = ToNumpy(std::move(tensor));
  }
  return py::make_tuple(output.ids, ToNumpy(std::move(output.out)), kept);
}

py::tuple Loss(PyModel& model, const TextInput& text, uint64_t seed,
               const py::object& progress) {
  Work work(progress);
  const LossJob job{
      .seed = seed, .on_progress = work.on_progress(), .stop = work.stop()};
  const TextLoss loss =
      Use(model, work, [&](Transformer& of) { return of.Loss(text, job); });
  return py::make_tuple(loss.loss.value, loss.loss.low, loss.loss.high,
                        Name(loss.kind), loss.sequences, loss.tokens);
}

py::object IntervalOrNone(const std::optional<Interval>& interval) {
  if (!interval) return py::none();
  return py::make_tuple(interval->value, interval->low, interval->high);
}

// The model beside the whole one that it was made of.
py::list Compare(PyModel& model, PyModel& whole,
                 const std::vector<TextInput>& texts, uint64_t seed,
                 const py::object& progress) {
  Work work(progress);
  const LossJob job{
      .seed = seed, .on_progress = work.on_progress(), .stop = work.stop()};
  std::vector<ModelJudgement> rows;
  const auto judge = [&](Transformer& other) {
    return CompareModels(whole.model, other, texts, job);
  };
  rows = work.Run([&] {
    // In one order, whoever is compared with whom.
    const bool same = &whole == &model;
    PyModel& first = &whole < &model ? whole : model;
    const Hold held(first, work);
    if (same) return judge(model.model);
    const Hold other(&first == &whole ? model : whole, work);
    return judge(model.model);
  });
  py::list all;
  for (const ModelJudgement& row : rows) {
    py::dict one;
    one["text"] = row.domain;
    one["kind"] = Name(row.kind);
    one["sequences"] = row.sequences;
    one["tokens"] = row.tokens;
    one["whole"] = IntervalOrNone(row.loss.whole);
    one["loss"] = IntervalOrNone(row.loss.other);
    one["change"] = IntervalOrNone(row.loss.change);
    one["divergence"] = IntervalOrNone(row.agreement.divergence);
    one["same_token"] = IntervalOrNone(row.agreement.same_token);
    one["sentences"] = row.agreement.sentences;
    one["cosine"] = IntervalOrNone(row.agreement.cosine);
    one["same_neighbour"] = IntervalOrNone(row.agreement.same_neighbour);
    all.append(one);
  }
  return all;
}

Means MeansOf(PyModel& model, const TextInput& text, uint64_t seed,
              const py::object& progress) {
  Work work(progress);
  const LossJob job{
      .seed = seed, .on_progress = work.on_progress(), .stop = work.stop()};
  return Use(model, work, [&](Transformer& of) {
    return Means{MeanOutputs(of, text, job)};
  });
}

// ---- Edits and hooks.

std::unique_ptr<PyIntervention> Edit(const ModelPointer& model,
                                     const std::vector<std::string>& drop,
                                     const std::map<std::string, double>& gates,
                                     const Means* means) {
  Work work;
  Intervention made = Use(*model, work, [&](Transformer& of) {
    HeadEdit edit;
    edit.drop = HeadsNamed(drop, of);
    for (const auto& [name, gate] : gates) {
      for (const HeadRef& head : ParseHeads(name, of)) edit.gates[head] = gate;
    }
    if (means != nullptr) edit.means = means->means;
    return of.Edit(std::move(edit));
  });
  return std::make_unique<PyIntervention>(model, std::move(made));
}

// A function of Python that a hook owns, let go of with the GIL.
std::shared_ptr<py::object> Owned(py::object function) {
  return {new py::object(std::move(function)),
          [](py::object* held) { WithPython([&] { delete held; }); }};
}

// What a callback gets is a copy that it may keep, copied back when it returns:
// the run's own memory is gone after that.
void CallHook(const std::weak_ptr<PyModel>& model, const py::object& function,
              std::string_view site, TensorView x) {
  const ModelPointer of = model.lock();
  Context& context = of->model.context();
  const Shape shape(std::span(x.shape).first(static_cast<size_t>(x.rank)));
  const auto copy =
      std::make_shared<Tensor>(Tensor::Undefined(context, x.type, shape));
  CopyTensor(context, x, copy->view());
  WithPython([&] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    py::object array =
        x.device.is_cpu()
            ? ToNumpy(copy)
            : py::cast(PyTensor{copy->view(), copy, {of, &context}});
    function(site, std::move(array));
  });
  // What it did there may be on any stream.
  context.SynchronizeDevice();
  CopyTensor(context, copy->view(), x);
}

std::unique_ptr<PyIntervention> Hook(const ModelPointer& model,
                                     const std::string& site,
                                     py::object function) {
  Work work;
  const std::shared_ptr<py::object> owned = Owned(std::move(function));
  const std::weak_ptr<PyModel> weak = model;
  Intervention made = Use(*model, work, [&](Transformer& of) {
    return of.Hook(site, [owned, weak](std::string_view name, TensorView x) {
      CallHook(weak, *owned, name, x);
    });
  });
  return std::make_unique<PyIntervention>(model, std::move(made));
}

// ---- Where heads look.

py::dict Map(PyModel& model, const py::object& text, const std::string& head,
             std::pair<int64_t, int64_t> queries,
             std::pair<int64_t, int64_t> keys,
             std::pair<int64_t, int64_t> cells, int64_t top,
             const std::vector<int64_t>& top_queries, bool received,
             const std::string& target) {
  Work work;
  MappedAttention map = WithText(text, [&](const auto& given) {
    return Use(model, work, [&](Transformer& of) {
      const std::vector<HeadRef> heads = ParseHeads(head, of);
      if (heads.size() != 1) {
        throw Error(ErrorCode::kInvalidArgument,
                    {"head", "one", std::to_string(heads.size()), ""});
      }
      return of.Map(given, {.head = heads[0],
                            .query_begin = queries.first,
                            .query_end = queries.second,
                            .key_begin = keys.first,
                            .key_end = keys.second,
                            .rows = cells.first,
                            .columns = cells.second,
                            .top = top,
                            .top_queries = top_queries,
                            .received = received,
                            .target = target});
    });
  });
  py::dict dict;
  dict["queries"] = map.queries;
  dict["keys"] = map.keys;
  dict["weights"] = ToNumpy(std::move(map.weights));
  dict["top_keys"] = ToNumpy(std::move(map.top_keys));
  dict["top_weights"] = ToNumpy(std::move(map.top_weights));
  dict["received"] = ToNumpy(std::move(map.received));
  dict["query_tokens"] = map.query_tokens;
  dict["key_tokens"] = map.key_tokens;
  return dict;
}

// ---- Text that grows.

py::tuple Continue(PyModel& model, const py::object& prompt, GenerateJob job,
                   const py::object& on_token) {
  Work work;
  job.stop = work.stop();
  job.on_token = [&](int32_t token) {
    work.Call([&] {
      if (!on_token.is_none()) on_token(token);
    });
  };
  const Generated said = WithText(prompt, [&](const auto& given) {
    return Use(model, work,
               [&](Transformer& of) { return Generate(of, given, job); });
  });
  return py::make_tuple(said.prompt, said.ids, said.text);
}

py::dict Encode(const PyModel& model, const std::string& text) {
  Work work;
  const Encoding encoding = work.Run([&] { return model.model.Encode(text); });
  py::list tokens, spans;
  for (size_t i = 0; i < encoding.size(); ++i) {
    tokens.append(model.model.tokenizer().Token(encoding.ids[i]));
    spans.append(
        py::make_tuple(encoding.spans[i].begin, encoding.spans[i].end));
  }
  py::dict dict;
  dict["ids"] = encoding.ids;
  dict["tokens"] = tokens;
  dict["spans"] = spans;
  return dict;
}

std::string Decode(const PyModel& model, const Ids& ids) {
  const Tokenizer& tokenizer = model.model.tokenizer();
  for (const int32_t id : ids) {
    if (id >= 0 && tokenizer.Token(id)) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"ids",
                 "ids of the vocabulary's " +
                     std::to_string(tokenizer.vocab_size()) + " tokens",
                 std::to_string(id), ""});
  }
  return tokenizer.Decode(ids);
}

py::list Heads(const PyModel& model) {
  py::list list;
  for (const HeadRef& head : HeadsOf(model.model)) {
    list.append(py::make_tuple(Name(head.kind), head.layer, head.head));
  }
  return list;
}

void AddText(py::module_& module) {
  py::class_<TextInput>(module, "TextInput")
      .def(py::init([](std::vector<std::string> texts,
                       std::vector<std::string> files, std::vector<Ids> ids,
                       int64_t context, std::optional<int64_t> tokens) {
             return TextInput{std::move(texts), std::move(files),
                              std::move(ids), context, tokens};
           }),
           py::arg("texts"), py::arg("files"), py::arg("ids"),
           py::arg("context"), py::arg("tokens"));
  py::class_<GenerateJob>(module, "GenerateJob")
      .def(py::init())
      .def_readwrite("max_tokens", &GenerateJob::max_tokens)
      .def_readwrite("context", &GenerateJob::context)
      .def_readwrite("truncate", &GenerateJob::truncate)
      .def_readwrite("beam", &GenerateJob::beam)
      .def_readwrite("length_penalty", &GenerateJob::length_penalty)
      .def_readwrite("temperature", &GenerateJob::temperature)
      .def_readwrite("top_k", &GenerateJob::top_k)
      .def_readwrite("top_p", &GenerateJob::top_p)
      .def_readwrite("seed", &GenerateJob::seed);
}

}  // namespace

void AddModel(py::module_& module) {
  AddText(module);
  py::class_<Means>(module, "Means")
      .def_property_readonly("sites",
                             [](const Means& means) {
                               std::vector<std::string> names;
                               for (const auto& [name, x] : *means.means) {
                                 names.push_back(name);
                               }
                               return names;
                             })
      .def("array", [](const Means& means, const std::string& site) {
        const auto found = means.means->find(site);
        if (found == means.means->end()) throw py::key_error(site);
        Context host({.threads = 1});
        return ToNumpy(CopyToHost(host, found->second.view()));
      });
  py::class_<PyIntervention>(module, "Intervention")
      .def("remove", &PyIntervention::Remove);
  py::class_<PyModel, ModelPointer>(module, "Model")
      .def(py::init(&Open), py::arg("folder"), py::arg("device"),
           py::arg("type"), py::arg("threads"), py::arg("bos"),
           py::arg("implementations"), py::arg("weight_memory"))
      .def_property_readonly(
          "folder",
          [](const PyModel& of) { return of.model.folder().string(); })
      .def_property_readonly("info", &InfoOf)
      .def_property_readonly("hash",
                             [](PyModel& of) {
                               Work work;
                               return Use(of, work, [](Transformer& model) {
                                 return model.hash();
                               });
                             })
      .def_property_readonly(
          "device",
          [](PyModel& of) { return ToString(of.model.context().device()); })
      .def_property_readonly(
          "type", [](const PyModel& of) { return Name(of.model.type()); })
      .def_property_readonly(
          "threads", [](PyModel& of) { return of.model.context().threads(); })
      .def_property_readonly(
          "edited", [](const PyModel& of) { return of.model.edited(); })
      .def_property_readonly(
          "has_tokenizer",
          [](const PyModel& of) { return of.model.has_tokenizer(); })
      .def_property_readonly("heads", &Heads)
      .def_property_readonly(
          "activations",
          [](const PyModel& of) { return of.model.ActivationNames(); })
      .def_property_readonly(
          "weights", [](const PyModel& of) { return of.model.WeightNames(); })
      .def("weight",
           [](PyModel& of, const std::string& name) {
             Work work;
             return ToNumpy(Use(of, work, [&](Transformer& model) {
               return model.Weight(name);
             }));
           })
      .def("encode", &Encode)
      .def("decode", &Decode)
      .def("run", &Run)
      .def("loss", &Loss)
      .def("compare", &Compare)
      .def("means", &MeansOf)
      .def("edit", &Edit)
      .def("hook", &Hook)
      .def("map", &Map)
      .def("generate", &Continue);
}

}  // namespace headwise::python
