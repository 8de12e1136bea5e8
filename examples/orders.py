"""An order and the job that confirms it, in one transaction of SQLAlchemy's.

The job exists exactly when the transaction commits. Needs `pip install sqlalchemy` and a database:
DATABASE_URL=postgresql://...
"""

import asyncio
import os

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import bee_core as bee
from bee_pg import PgBroker, sending

DATABASE = os.environ["DATABASE_URL"]
orders = sa.Table("orders", sa.MetaData(), sa.Column("number", sa.Integer, primary_key=True))


class Confirm(bee.Job):
    order: int


hive = bee.Hive(broker=PgBroker(DATABASE, migrate=True))
mail = hive.queue("mail", Confirm)


@mail.handler
async def confirm(job: Confirm) -> None:
    print(f"confirmed order {job.order}")


async def place(session: AsyncSession, number: int, *, paid: bool) -> None:
    """Store an order and ask for its confirmation. Both, or neither."""
    await session.execute(orders.insert().values(number=number))
    connection = await (await session.connection()).get_raw_connection()
    await sending(connection).send(mail, Confirm(order=number))
    if not paid:
        raise ValueError("not paid")


async def main() -> None:
    engine = create_async_engine(DATABASE.replace("postgresql://", "postgresql+psycopg://"))
    async with hive, engine.begin() as connection:
        await hive.broker.queues()  # the first use: bee's tables are made
        await connection.run_sync(orders.metadata.create_all)
    for number, paid in ((1, True), (2, False)):
        try:
            async with AsyncSession(engine) as session, session.begin():
                await place(session, number, paid=paid)
            print(f"order {number}: paid")
        except ValueError:
            print(f"order {number}: refused, and rolled back")
    await engine.dispose()
    async with hive:
        await hive.run(until_empty=True)


if __name__ == "__main__":
    asyncio.run(main())
