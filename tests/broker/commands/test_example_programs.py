"""The Kafka programs of examples/ print what their page says, as people run them."""

import pytest

from tests.example_programs import OF_KAFKA, expect, run_as_people_do


@pytest.mark.parametrize("program", OF_KAFKA)
def test_program_prints_what_its_page_says(program, broker, tmp_path):
    expect(program, run_as_people_do(program, tmp_path, KAFKA_BOOTSTRAP=broker))
