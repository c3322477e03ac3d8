// Loading, running, edits and hooks. Doors: include/headwise/model.h,
// session.h.
#include "model.h"

#include <map>
#include <optional>
#include <tuple>

#include "headwise/embed.h"
#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/generate.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/model_info.h"
#include "headwise/text_input.h"
#include "job.h"
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
      list.append(py::dict(
          "heads"_a = layer.heads, "kv_heads"_a = layer.kv_heads,
          "cross_heads"_a = layer.cross_heads, "window"_a = layer.window,
          "head_dim"_a = layer.head_dim, "weights_of"_a = layer.weights_of));
    }
    return list;
  };
  return py::dict("name"_a = info.name, "family"_a = info.family,
                  "model_type"_a = info.model_type, "width"_a = info.width,
                  "feed_forward"_a = info.feed_forward,
                  "vocabulary"_a = info.vocabulary, "context"_a = info.context,
                  "causal"_a = info.causal,
                  "encoder_decoder"_a = info.encoder_decoder,
                  "predicts_tokens"_a = info.predicts_tokens,
                  "layers"_a = layers(info.layers),
                  "decoder_layers"_a = layers(info.decoder_layers),
                  "unread"_a = info.unread, "parameters"_a = info.parameters,
                  "file_bytes"_a = info.file_bytes);
}

ModelPointer Open(const std::string& folder, const py::kwargs& given) {
  Call<OpenOptions> call("load", given);
  return call.work.Run(
      [&] { return std::make_shared<PyModel>(folder, call.job); });
}

// A text, or ids: run(text) of what there is.
template <typename F>
auto WithText(const py::object& text, F&& run) {
  if (py::isinstance<py::str>(text)) return run(text.cast<std::string>());
  return run(text.cast<Ids>());
}

py::tuple Run(PyModel& model, const py::object& text, const py::kwargs& given) {
  Call<RunJob> call("run", given);
  RunOutput output = WithText(text, [&](const auto& read) {
    return Use(model, call.work,
               [&](Transformer& of) { return of.Run(read, call.job); });
  });
  py::dict kept;
  for (auto& [name, tensor] : output.cache) {
    kept[py::str(name)] = ToNumpy(std::move(tensor));
  }
  return py::make_tuple(output.ids, ToNumpy(std::move(output.out)), kept);
}

py::tuple Loss(PyModel& model, TextInput& text, const py::kwargs& given) {
  Call<LossJob> call("loss", given, text);
  const TextLoss loss = Use(model, call.work, [&](Transformer& of) {
    return of.Loss(text, call.job);
  });
  return py::make_tuple(loss.loss.value, loss.loss.low, loss.loss.high,
                        Name(loss.kind), loss.sequences, loss.tokens);
}

py::tuple Embed(PyModel& model, const std::vector<std::string>& texts,
                const py::kwargs& given) {
  Call<EmbedJob> call("embed", given);
  EmbeddedTexts made = Use(model, call.work, [&](Transformer& of) {
    return EmbedTexts(of, texts, call.job);
  });
  return py::make_tuple(ToNumpy(std::move(made.vectors)), made.how, made.tokens,
                        made.cut);
}

py::object IntervalOrNone(const std::optional<Interval>& interval) {
  if (!interval) return py::none();
  return py::make_tuple(interval->value, interval->low, interval->high);
}

// The model beside the whole one that it was made of.
py::list Compare(PyModel& model, PyModel& whole, std::vector<TextInput> texts,
                 const py::kwargs& given) {
  TextInput all_texts;
  Call<LossJob> call("compare", given, all_texts);
  for (TextInput& text : texts) {
    text.context = all_texts.context;
    text.tokens = all_texts.tokens;
  }
  const auto judge = [&](Transformer& other) {
    return CompareModels(whole.model, other, texts, call.job);
  };
  const std::vector<ModelJudgement> rows = call.work.Run([&] {
    // In one order, whoever is compared with whom.
    const bool same = &whole == &model;
    PyModel& first = &whole < &model ? whole : model;
    const Hold held(first, call.work);
    if (same) return judge(model.model);
    const Hold other(&first == &whole ? model : whole, call.work);
    return judge(model.model);
  });
  py::list all;
  for (const ModelJudgement& row : rows) {
    all.append(py::dict(
        "text"_a = row.domain, "kind"_a = Name(row.kind),
        "sequences"_a = row.sequences, "tokens"_a = row.tokens,
        "whole"_a = IntervalOrNone(row.loss.whole),
        "loss"_a = IntervalOrNone(row.loss.other),
        "change"_a = IntervalOrNone(row.loss.change),
        "divergence"_a = IntervalOrNone(row.agreement.divergence),
        "same_token"_a = IntervalOrNone(row.agreement.same_token),
        "sentences"_a = row.agreement.sentences,
        "cosine"_a = IntervalOrNone(row.agreement.cosine),
        "same_neighbour"_a = IntervalOrNone(row.agreement.same_neighbour)));
  }
  return all;
}

Means MeansOf(PyModel& model, TextInput& text, const py::kwargs& given) {
  Call<LossJob> call("means", given, text);
  return Use(model, call.work, [&](Transformer& of) {
    return Means{MeanOutputs(of, text, call.job)};
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

using Range = std::pair<int64_t, int64_t>;

py::dict Map(PyModel& model, const py::object& text, const std::string& head,
             Range queries, Range keys, Range cells, const py::kwargs& given) {
  Call<MapJob> call("attention", given);
  MapJob& job = call.job;
  std::tie(job.query_begin, job.query_end) = queries;
  std::tie(job.key_begin, job.key_end) = keys;
  std::tie(job.rows, job.columns) = cells;
  MappedAttention map = WithText(text, [&](const auto& read) {
    return Use(model, call.work, [&](Transformer& of) {
      const std::vector<HeadRef> heads = ParseHeads(head, of);
      if (heads.size() != 1) {
        throw Error(ErrorCode::kInvalidArgument,
                    {"head", "one", std::to_string(heads.size()), ""});
      }
      job.head = heads[0];
      return of.Map(read, job);
    });
  });
  return py::dict("queries"_a = map.queries, "keys"_a = map.keys,
                  "weights"_a = ToNumpy(std::move(map.weights)),
                  "top_keys"_a = ToNumpy(std::move(map.top_keys)),
                  "top_weights"_a = ToNumpy(std::move(map.top_weights)),
                  "received"_a = ToNumpy(std::move(map.received)),
                  "query_tokens"_a = map.query_tokens,
                  "key_tokens"_a = map.key_tokens);
}

// ---- Text that grows.

py::tuple Continue(PyModel& model, const py::object& prompt,
                   const py::object& on_token, const py::kwargs& given) {
  Call<GenerateJob> call("generate", given);
  call.job.on_token = [&](int32_t token) {
    call.work.Call([&] {
      if (!on_token.is_none()) on_token(token);
    });
  };
  const Generated said = WithText(prompt, [&](const auto& text) {
    return Use(model, call.work,
               [&](Transformer& of) { return Generate(of, text, call.job); });
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
  return py::dict("ids"_a = encoding.ids, "tokens"_a = tokens,
                  "spans"_a = spans);
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

void AddText(py::module_& module) {
  py::class_<TextInput>(module, "TextInput")
      .def(py::init([](std::vector<std::string> texts,
                       std::vector<std::string> files, std::vector<Ids> ids) {
             return TextInput{std::move(texts), std::move(files),
                              std::move(ids)};
           }),
           py::arg("texts"), py::arg("files"), py::arg("ids"));
  Define<OpenOptions>(module, "load", &Open);
  Define<RunJob>(module, "run", &Run);
  Define<MapJob>(module, "attention", &Map);
  Define<LossJob, TextInput>(module, "loss", &Loss);
  Define<EmbedJob>(module, "embed", &Embed);
  Define<LossJob, TextInput>(module, "compare", &Compare);
  Define<LossJob, TextInput>(module, "means", &MeansOf);
  Define<GenerateJob>(module, "generate", &Continue);
}

}  // namespace

void AddModel(py::module_& module) {
  py::class_<Means>(module, "Means",
                    "What every head gives in the mean over a text: "
                    "means[site] is f32 [1, heads, width] at "
                    "\"layer.3.attention\".")
      .def_property_readonly(
          "sites",
          [](const Means& means) {
            std::vector<std::string> names;
            for (const auto& [name, x] : *means.means) names.push_back(name);
            return names;
          },
          "Names of what is here.")
      .def("__getitem__", [](const Means& means, const std::string& site) {
        const auto found = means.means->find(site);
        if (found == means.means->end()) throw py::key_error(site);
        Context host({.threads = 1});
        return ToNumpy(CopyToHost(host, found->second.view()));
      });
  py::class_<PyIntervention>(module, "Intervention",
                             "An edit or a hook, in place since it was made. "
                             "`with` ends it, and so does remove().")
      .def("remove", &PyIntervention::Remove, "Takes it away now.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__",
           [](PyIntervention& self, const py::args&) { self.Remove(); });
  py::class_<PyModel, ModelPointer>(module, "Model")
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
          "edited", [](const PyModel& of) { return of.model.edited(); })
      .def_property_readonly(
          "heads", [](const PyModel& of) { return Tuples(HeadsOf(of.model)); })
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
      .def("edit", &Edit)
      .def("hook", &Hook);
  AddText(module);
}

}  // namespace headwise::python
