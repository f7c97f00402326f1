"""Trees as text: what is put in comes out as it was, and never as markup."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.markup import link, render_html, render_svg, tag, with_code
from tests.report.parsed_page import Parsed


@given(st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"))), st.text())
def test_any_text_comes_back_and_makes_no_tag(text: str, anything: str) -> None:
    page = render_html(tag("p", tag("b", text), "·", anything, title=text))
    parsed = Parsed(page)
    assert [name for name, _ in parsed.tags] == ["p", "b"]
    assert parsed.tags[0][1]["title"] == text
    assert "".join(parsed.text).partition("\n")[2].startswith(f"{text}·")
    page.encode()


def test_lone_surrogates_and_control_characters_are_replaced() -> None:
    assert "a�b��c" in render_html(tag("p", "a\x00b\udcff\x1bc"))


def test_text_numbers_and_elements_keep_their_order() -> None:
    tree = tag("p", "a", tag("b", 1), ["c", None, [tag("i"), 2.5]], "d", class_="x", stroke_width=3, id=None)
    assert render_html(tree) == '<!DOCTYPE html>\n<p class="x" stroke-width="3">a<b>1</b>c<i></i>2.5d</p>\n'


def test_commands_between_backticks_are_set_as_code_and_all_else_stays_as_it_is() -> None:
    shown = render_html(tag("p", with_code("run `a <b>` or `c`, not ` alone")))
    assert "<p>run <code>a &lt;b&gt;</code> or <code>c</code>, not ` alone</p>" in shown


def test_a_link_quotes_what_an_address_cannot_hold() -> None:
    assert link("runs/a b/ä\"'#?.json").get("href") == "../../runs/a%20b/%C3%A4%22%27%23%3F.json"


def test_a_picture_of_its_own_is_xml_with_its_style() -> None:
    text = render_svg(tag("svg", tag("text", "<&>"), viewBox="0 0 1 1"), "svg .x { color: red; }")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert [child.text for child in root] == ["svg .x { color: red; }", "<&>"]
