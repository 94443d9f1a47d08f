"""Mistakes at the command line about the kinds of the companion."""

import pytest

from tests.mistakes import require_one_line

pytestmark = pytest.mark.usefixtures("own_folder")


# A command line, and words of its error.
MISTAKES = """
--task stories --depth 3 => --depth has no effect on the model memn2n
--scan shepp-logan --bands 4 6 => '6' belongs to no option
--scan shepp-logan --encodings auto => no encoding 'auto'; there are finer
--scan shepp-logan --sigma 3 => --sigma is for the encoding gaussian
--scan shepp-logan --projections 0 => --projections must be 1
--scan shepp-logan --held-out => --held-out is for --image, not for --scan
--task empty.txt => empty
--task binary.txt => binary
--task short.txt => use a longer text or a smaller --context
--task folder => folder
--task babi => question
--task one.tsv => column
--task novel => built-in
--task text.txt --model gpt => none of the models
--task text.txt --model memn2n => does not fit
--task text.txt --model conv --encodings rotary => takes the encodings none, sinusoidal, learned
--task text.txt --bands 4 => --bands is for --image
--image cat --hops 3 => --hops is for --task
--task text.txt --beam 3 => --beam has no effect on the model transformer
--task text.txt --hops 3 => --hops has no effect on the model transformer
--task text.txt --model causal --beam 4 => --beam has no effect on the model causal
--task numbers --context 7 => --context has no effect on the model transformer on numbers
--task text.txt --penalty 0 => --penalty has no effect on the model transformer
--task chapters --penalty -1 => must be 0 or more
--task table.csv => table.csv is not a text file
--task text.txt --image cat => give one of
--task text.txt --seeds 0 => --seeds must be 1 to 100
--task text.txt --context 0 => --context must be 1
--task topics --turntable 3 => --turntable is for --scene, not for --task
--image cat --beam 2 => --beam is for --task, not for --image
--shape brick --eikonal -1 => --eikonal must be 0 or more
--shape brick --encodings auto => no encoding 'auto'; there are finer
--observed 0.5 --task topics => --observed is for --image
identify nowhere.json => nowhere.json
"""


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_gets_one_line_status_2_and_writes_nothing(
    mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    require_one_line(mistake, capsys)
