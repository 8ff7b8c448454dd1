"""The plots of the pages show the figures beside them."""

from __future__ import annotations

from docs.plots import PAGES, Plot, plots


def test_the_images_are_drawn_from_the_figures() -> None:
    for name, image in plots().items():
        assert (PAGES / "images" / name).read_text(encoding="utf-8") == image, f"{name}: run make plots"


def test_equal_factors_are_equal_lengths() -> None:
    image = Plot("all", (1e3, 10e3, 100e3), left=50).draw({"some": {"records": 10e3, "columns": 100e3}, "none": {}})
    assert [text for text in ('width="300"', 'width="600"', ">10 k<", ">100 k<", ">some<") if text not in image] == []
