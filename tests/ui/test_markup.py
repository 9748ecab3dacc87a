"""Text from outside is made safe."""

from gpulayer_nb.ui.markup import coloured, plain, with_code


def test_markup_in_text_is_shown_and_not_obeyed():
    assert coloured('<b onclick="x">&') == "&lt;b onclick=&quot;x&quot;&gt;&amp;"


def test_colours_become_spans_and_other_sequences_vanish():
    assert coloured("a\x1b[1;31mred\x1b[0m \x1b[2K\x1b]0;title\x07b\x1b[38;5;9mc\x1b[m") == (
        'a<span style="font-weight:600;color:var(--jp-ansi-red,#b71c1c);">red</span> bc'
    )


def test_plain_text_has_no_sequences_and_no_control_characters():
    assert plain("\x1b[31mred\x1b[0m\x07\tb\nc\x1b") == "red\tb\nc"


def test_words_between_backquotes_are_set_as_code():
    assert with_code("Next: `%%ranks <3>`") == "Next: <code>%%ranks &lt;3&gt;</code>"
