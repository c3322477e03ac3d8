"""What analyses give, as objects that print well and hold arrays."""
from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._inputs import Head, HeadLike, grid, head_name


class Interval(NamedTuple):
    """A value with its 95 % interval."""
    value: float
    low: float
    high: float


class Table(list):
    """Rows as dicts; pandas.DataFrame takes it as it is."""

    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(dict.fromkeys(key for row in self for key in row))

    @staticmethod
    def _cell(value: Any) -> str:
        if value is None or value != value:
            return ""
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    def _cells(self) -> list[list[str]]:
        names = self.columns()
        return [names] + [[self._cell(row.get(name)) for name in names]
                          for row in self]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width
                                   in zip(row, widths)).rstrip()
                         for row in cells)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self._cells()

        def line(tag: str, row: list[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>"
                                    for cell in row) + "</tr>"
        return ("<table>" + line("th", head)
                + "".join(line("td", row) for row in rows) + "</table>")


class Picture:
    """An SVG document that stands alone; a notebook shows it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        return (f'<img alt="heads" style="max-width:100%" '
                f'src="data:image/svg+xml;base64,{data}">')

    def __repr__(self) -> str:
        return f"Picture({len(self.svg)} bytes of SVG; .save(path) writes it)"


class Report:
    """Everything that is known of a model's heads, as one page."""

    def __init__(self, page: str, text: str) -> None:
        self.html = page
        self.json: dict[str, Any] = json.loads(text)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, which needs no network."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (f'<iframe style="width:100%;height:40em;border:0" '
                f'srcdoc="{html.escape(self.html)}"></iframe>')


class Atlas:
    """A page for every head, in a folder."""

    def __init__(self, folder: str, text: str, heads: Sequence[Head]) -> None:
        #: index.html, and data/ for HeadVis' viewer.
        self.folder = Path(folder)
        #: As `headwise atlas --json` prints it.
        self.json: dict[str, Any] = json.loads(text)
        self.heads = list(heads)
        self.sequences: int = self.json["sequences"]
        self.tokens: int = self.json["tokens"]
        self.roles: list[str] = [row["role"] for row in self.json["heads"]]

    def __getitem__(self, metric: str) -> np.ndarray:
        """[layers, heads] of one of the six metrics; NaN where no row
        counts."""
        rows = self.json["heads"]
        if metric not in rows[0]["metrics"]:
            raise ValueError(f"[metric] expected one of "
                             f"{', '.join(rows[0]['metrics'])}; found {metric}")
        return grid([row["metrics"][metric] for row in rows], self.heads)

    def __repr__(self) -> str:
        return (f"Atlas({len(self.heads)} heads on {self.tokens} tokens in "
                f"{self.folder})")


class Attention:
    """Where a head looks: weights [queries, keys], and what else was asked
    for. NumPy takes it as the matrix."""

    def __init__(self, found: Mapping[str, Any], name: str) -> None:
        self.head = name
        #: Of the whole text.
        self.queries: int = found["queries"]
        self.keys: int = found["keys"]
        #: f32 [queries, keys], or fewer cells where asked.
        self.weights: np.ndarray = found["weights"]
        #: i32 [top_queries, top]; -1 past the visible.
        self.top_keys: np.ndarray | None = found["top_keys"]
        #: f32 [top_queries, top], largest first.
        self.top_weights: np.ndarray | None = found["top_weights"]
        #: f32 [keys]: what each gets of all queries.
        self.received: np.ndarray | None = found["received"]
        self.query_tokens: list[str] = found["query_tokens"]
        self.key_tokens: list[str] = found["key_tokens"]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.weights, dtype) if copy else \
            np.asarray(self.weights, dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.weights[index]

    def __repr__(self) -> str:
        return f"Attention(head {self.head}, {self.shape})"


class HeadWeights(NamedTuple):
    """The weights of one head, x a row: q = x W_Q, v = x W_V, out = v W_O."""
    W_Q: np.ndarray
    W_K: np.ndarray
    W_V: np.ndarray
    W_O: np.ndarray
    #: W_Q W_K^T: how it matches, at equal positions.
    QK: np.ndarray
    #: W_V W_O: what it writes of what it reads.
    OV: np.ndarray


def _heads(rows: Iterable[Mapping[str, Any]]) -> list[Head]:
    return [Head(row["layer"], row["head"], row.get("kind", "self"))
            for row in rows]


class Ranking:
    """How much every head matters. ranking["ablation-mean"] is the array
    [layers, heads] of the rise of the loss without it."""

    def __init__(self, text: str) -> None:
        #: All of it, as `headwise rank --json` prints it.
        self.json: dict[str, Any] = json.loads(text)
        self.heads = _heads(self.json["heads"])
        self.loss: float = self.json["loss"]["value"]
        self.criteria: list[str] = list(self.json["heads"][0]["criteria"])

    def array(self, criterion: str, kind: str = "self",
              end: str = "value") -> np.ndarray:
        """[layers, heads] of a criterion; end: value, low or high."""
        if criterion not in self.criteria:
            raise ValueError(f"[criterion] expected one of "
                             f"{', '.join(self.criteria)}; found {criterion}")
        return grid([row["criteria"][criterion][end]
                     for row in self.json["heads"]], self.heads, kind)

    def __getitem__(self, criterion: str) -> np.ndarray:
        return self.array(criterion)

    def classes(self) -> dict[Head, str]:
        """"critical", "redundant", … of every head, by the first ablation."""
        return {head: row["class"] for head, row
                in zip(self.heads, self.json["heads"]) if "class" in row}

    def top(self, count: int = 10, by: str | None = None) -> list[Head]:
        """The heads that matter most."""
        by = by or self.criteria[0]
        self.array(by, self.heads[0].kind)  # throws for an unknown one
        values = [row["criteria"][by]["value"] for row in self.json["heads"]]
        order = sorted(range(len(values)), key=lambda i: -(values[i] or 0))
        return [self.heads[i] for i in order[:count]]

    def table(self) -> Table:
        """One row a head."""
        return Table({"head": str(head), "class": row.get("class"),
                      **{name: row["criteria"][name]["value"]
                         for name in self.criteria}}
                     for head, row in zip(self.heads, self.json["heads"]))

    def __repr__(self) -> str:
        return (f"Ranking({len(self.heads)} heads by "
                f"{', '.join(self.criteria)}; loss {self.loss:.4f})")

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Patching:
    """Which heads the difference of two logits comes from."""

    def __init__(self, found: Mapping[str, Any], heads: Sequence[Head]) -> None:
        self.heads = list(heads)
        self.cases: int = found["cases"]
        #: Logit of the answer less that of the other, after the prompt.
        self.difference = Interval(*found["difference"])
        #: The same after the counterfactual.
        self.counterfactual = Interval(*found["counterfactual"])
        #: The share of prompts whose answer's logit is larger.
        self.preferred: float = found["preferred"]
        kind = self.heads[0].kind
        #: Direct logit attribution, [layers, heads].
        self.direct = grid(found["heads"], self.heads, kind)
        self.mlps = np.array(found["mlps"])
        self.biases = np.array(found["biases"])
        self.embedding: float = found["embedding"]
        self.constant: float = found["constant"]
        #: Of all parts: the difference.
        self.sum: float = found["sum"]
        patched = [Interval(*one) for one in found["patched"]]
        #: The difference lost with the counterfactual's output of the head,
        #: [layers, heads]; None where nothing was patched.
        self.patched = grid([one.value for one in patched], self.heads, kind) \
            if patched else None
        #: The same as a share of difference - counterfactual.
        self.share = grid(found["share"], self.heads, kind) \
            if patched else None
        self.intervals = dict(zip(self.heads, patched))

    def top(self, count: int = 5) -> list[Head]:
        """The heads with the largest share, or the largest direct effect."""
        values = self.direct if self.share is None else self.share
        return sorted(self.heads, key=lambda head: -abs(
            values[head.layer, head.head]))[:count]

    def __repr__(self) -> str:
        return (f"Patching({self.cases} prompts, difference "
                f"{self.difference.value:+.3f}; top "
                f"{', '.join(map(str, self.top()))})")


class Similarity:
    """Which heads are alike: matrices f64 [heads, heads] in the order of
    `heads`."""

    def __init__(self, found: Mapping[str, Any], heads: Sequence[Head]
                 ) -> None:
        #: All of it, as `headwise similar --json` prints it.
        self.json: dict[str, Any] = json.loads(found["json"])
        self.heads = list(heads)
        self.bhattacharyya: np.ndarray = found["bhattacharyya"]
        self.jsd: np.ndarray = found["jsd"]
        self.cka: np.ndarray = found["cka"]
        self.ov_read: np.ndarray = found["ov_read"]
        self.ov_write: np.ndarray = found["ov_write"]
        #: f64 [heads, 2]: like heads are near.
        self.map: np.ndarray = found["map"]
        self.group = np.array(found["group"])
        self.order = np.array(found["order"])
        self._draw = found["draw"]

    def index(self, head: HeadLike) -> int:
        """The row of a head."""
        name = head_name(head)
        names = [str(one) for one in self.heads]
        if name not in names:
            raise ValueError(f"[head] expected a head of the model; found "
                             f"{name}")
        return names.index(name)

    def closest(self, head: HeadLike, count: int = 5) -> list[Head]:
        """The heads whose patterns diverge least from this one's."""
        row = np.where(np.isnan(self.jsd), np.inf, self.jsd)[self.index(head)]
        order = [i for i in np.argsort(row, kind="stable")
                 if i != self.index(head) and np.isfinite(row[i])]
        return [self.heads[i] for i in order[:count]]

    def picture(self) -> Picture:
        """Map and matrix."""
        return Picture(self._draw())

    def __repr__(self) -> str:
        return (f"Similarity({len(self.heads)} heads, "
                f"{len(set(self.group.tolist()))} groups)")


class Composition:
    """Which heads feed which; edges with the highest score first."""

    def __init__(self, text: str, svg: str) -> None:
        #: All of it, as `headwise compose --json` prints it.
        self.json: dict[str, Any] = json.loads(text)
        self.baseline: float = self.json["baseline"]
        self.edges = Table(self.json["edges"])
        self._svg = svg

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.edges)

    def __len__(self) -> int:
        return len(self.edges)

    def picture(self) -> Picture:
        """The first edges, drawn."""
        return Picture(self._svg)

    def __repr__(self) -> str:
        return f"Composition({len(self)} edges; baseline {self.baseline:.3f})"
